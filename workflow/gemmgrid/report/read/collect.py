"""All that the report stands on, read once: every run, every planned cell, every machine."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gemmgrid.records import history
from gemmgrid.report.read import apart, plan_file
from gemmgrid.report.read.apart import Apart
from gemmgrid.report.read.fields import clean
from gemmgrid.report.read.plan_file import Key, Planned, PlanView
from gemmgrid.report.read.rows import MISSING, RATES, Row, cell_values, from_run, standing
from gemmgrid.report.read.scan import MACHINE_FILE, CellFile, Problem, scan


@dataclass
class Collection:
    """Everything under a results folder.

    machines: machine.json's content by machine (None where there is none that can be read);
    runs: a row a run, each cell's history oldest first; cells: a row a cell, its latest run (with
    the last good one's figures where it failed) or why it has none; planned: the keys of the
    current study's cells, in the plan's order; apart: what other machines left in a machine's
    folder, which is in neither runs nor cells.
    """

    results: Path
    plan: PlanView | None = None
    machines: dict[str, dict[str, Any] | None] = field(default_factory=dict)
    runs: list[Row] = field(default_factory=list)
    cells: list[Row] = field(default_factory=list)
    planned: list[Key] = field(default_factory=list)
    apart: list[Apart] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    @property
    def all_cells(self) -> list[Row]:
        """The cells with those that stand apart: for lists, never for a comparison."""
        return [*self.cells, *(row for one in self.apart for row in one.cells)]

    @property
    def all_runs(self) -> list[Row]:
        """The runs with those that stand apart: for lists, never for a comparison."""
        return [*self.runs, *(row for one in self.apart for row in one.runs)]


def collect(results: Path) -> Collection:
    """Read `results`. Nothing found there can make this fail; what cannot be used is a problem."""
    found = scan(results)
    collection = Collection(results, plan_file.read(results), problems=found.problems)
    plan = collection.plan
    for machine in found.machines:
        collection.machines[machine] = _machine(collection, results / machine / MACHINE_FILE)
    latest: dict[Key, Row] = {}
    others: list[Row] = []
    for file in found.cells:
        found_rows = _history(collection, file)
        rows = [row for row in found_rows if row["apart_from"] is None]
        others += [row for row in found_rows if row["apart_from"] is not None]
        collection.runs += rows
        if rows:
            latest[rows[-1].key] = standing(rows)
    collection.apart = apart.gather(others)
    if plan:
        _add_planned(collection, plan, latest)
    collection.cells = [latest[key] for key in sorted(latest)]
    collection.problems.sort(key=lambda problem: (problem.file, problem.line or 0))
    return collection


def _history(collection: Collection, file: CellFile) -> list[Row]:
    name = clean(file.path.as_posix())
    machine = collection.machines.get(file.machine)
    rows: list[Row] = []
    try:
        read = history.read(file.path)
        for found in (*read.problems, *read.notes):
            text = clean(str(found["problem"]))
            collection.problems.append(Problem(name, found["line"], text))
        runs = read.runs
    except Exception as error:
        # One stranger's file must not cost the report, whatever it holds.
        collection.problems.append(Problem(name, None, f"cannot be read: {_told(error)}"))
        return rows
    for number, run in enumerate(runs, start=1):
        try:
            row = from_run(run, file, machine)
        except Exception as error:
            problem = f"run {number} of {len(runs)} set aside: {_told(error)}"
            collection.problems.append(Problem(name, None, problem))
        else:
            rows.append(row)
            for text in row.problems:
                told = f"run {number} of {len(runs)}: {text}; read as unknown"
                collection.problems.append(Problem(name, None, told))
    return rows


def _machine(collection: Collection, path: Path) -> dict[str, Any] | None:
    problem = None
    try:
        document = json.loads(path.read_bytes())
        if isinstance(document, dict):
            return document
        problem = f"not a JSON object but {type(document).__name__}"
    except FileNotFoundError:
        problem = "is missing: this machine's hardware is unknown"
    except (OSError, ValueError, RecursionError) as error:
        problem = f"cannot be read: {_told(error)}"
    collection.problems.append(Problem(path.as_posix(), None, problem))
    return None


def _add_planned(collection: Collection, plan: PlanView, latest: dict[Key, Row]) -> None:
    """Rows for the planned cells that have no run, and the plan's own problems."""
    file = (collection.results / plan_file.PLAN_FILE).as_posix()
    collection.problems += [Problem(file, line, clean(text)) for line, text in plan.problems]
    elsewhere: dict[Key, list[Row]] = {}
    for one in collection.apart:
        for cell in one.cells:
            key = (one.machine, cell["backend"], cell["cell"])
            elsewhere.setdefault(key, []).append(cell)
    for planned in plan.cells:
        collection.planned.append(planned.key)
        row = latest.get(planned.key)
        if row is None:
            latest[planned.key] = row = _without_run(collection.results, planned, plan)
            if row["status"] == MISSING and (made := elsewhere.get(planned.key)):
                row.values["reason"] = apart.missing_reason(made)
        elif row["retry"]:
            row.values["retry"] = plan.retry(row["path"], row.deploy)
        for other in elsewhere.get(planned.key, []):
            if other["retry"]:
                other.values["retry"] = plan.retry(other["path"], other.deploy)


def _without_run(results: Path, planned: Planned, plan: PlanView) -> Row:
    path = (results / planned.machine / planned.backend / f"{planned.cell.name}.jsonl").as_posix()
    values = cell_values(planned.machine, planned.backend, planned.cell, path)
    missing = planned.status == "planned"
    values.update(
        dict.fromkeys(RATES),
        status=MISSING if missing else planned.status,
        reason="no run yet" if missing else planned.reason or "the plan gives no reason",
        adapter=planned.adapter,
        device=planned.device,
        flags="",
        # What the config leaves out, no command brings back; the config has to change.
        retry=plan.retry(path) if missing else None,
    )
    return Row(values)


def _told(error: Exception) -> str:
    return clean(str(error) or type(error).__name__, 300)
