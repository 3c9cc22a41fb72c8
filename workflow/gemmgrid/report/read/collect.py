"""All that the report stands on, read once: every run, every planned cell, every machine."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gemmgrid.records import history
from gemmgrid.records.files import read_regular
from gemmgrid.report.read import foreign_runs, plan_file
from gemmgrid.report.read.fields import clean
from gemmgrid.report.read.foreign_runs import ForeignRuns
from gemmgrid.report.read.plan_file import Key, Planned, PlanView
from gemmgrid.report.read.rows import MISSING, RATES, Row, cell_values, from_run, standing
from gemmgrid.report.read.scan import MACHINE_FILE, CellFile, Problem, scan


@dataclass
class Collection:
    """Everything under a results folder.

    machines: machine.json's content by machine (None where there is none that can be read);
    runs: a row a run, each cell's history oldest first; cells: a row a cell, its latest run or why
    it has none; planned: the keys of the current study's cells, in the plan's order; foreign: what
    other machines left in a machine's folder, which is in neither runs nor cells.
    """

    results: Path
    plan: PlanView | None = None
    machines: dict[str, dict[str, Any] | None] = field(default_factory=dict)
    runs: list[Row] = field(default_factory=list)
    cells: list[Row] = field(default_factory=list)
    planned: list[Key] = field(default_factory=list)
    foreign: list[ForeignRuns] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    @property
    def all_cells(self) -> list[Row]:
        """The cells with those that stand apart: for lists, never for a comparison."""
        return [*self.cells, *(row for one in self.foreign for row in one.cells)]

    @property
    def all_runs(self) -> list[Row]:
        """The runs with those that stand apart: for lists, never for a comparison."""
        return [*self.runs, *(row for one in self.foreign for row in one.runs)]


def collect(results: Path) -> Collection:
    """Read `results`. Nothing found there can make this fail; what cannot be used is a problem."""
    found = scan(results)
    collection = Collection(results, plan_file.read(results), problems=found.problems)
    for machine in found.machines:
        collection.machines[machine] = _machine(collection, results / machine / MACHINE_FILE)
    histories: dict[Key, list[Row]] = {}
    for file in found.cells:
        for row in _history(collection, file):
            histories.setdefault(row.key, []).append(row)
    own: list[Row] = []
    foreign: tuple[list[Row], list[Row]] = ([], [])
    plan = collection.plan
    planned = {one.key for one in plan.cells} if plan else set()
    for key, rows in sorted(histories.items()):
        rows[-1].set_commands(plan if key in planned else None)
        runs, cells = (collection.runs, own) if rows[0]["apart_from"] is None else foreign
        runs += rows
        cells.append(standing(rows))
    collection.foreign = foreign_runs.gather(*foreign)
    latest = {row.key: row for row in own}
    if collection.plan:
        _add_planned(collection, collection.plan, latest)
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
            rows.append(from_run(run, file, machine))
        except Exception as error:
            problem = f"run {number} of {len(runs)} set aside: {_told(error)}"
            collection.problems.append(Problem(name, None, problem))
    return rows


def _machine(collection: Collection, path: Path) -> dict[str, Any] | None:
    problem = None
    try:
        document = json.loads(read_regular(path))
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
    for one in collection.foreign:
        for cell in one.cells:
            key = (one.machine, cell["backend"], cell["cell"])
            elsewhere.setdefault(key, []).append(cell)
    for planned in plan.cells:
        collection.planned.append(planned.key)
        made = elsewhere.get(planned.key, [])
        if planned.key not in latest:
            latest[planned.key] = _without_run(collection.results, planned, plan, made)
        for other in made:
            other.set_commands(plan)


def _without_run(results: Path, planned: Planned, plan: PlanView, elsewhere: list[Row]) -> Row:
    """The row of a planned cell that the machine itself has not run; elsewhere: others' runs."""
    path = (results / planned.machine / planned.backend / f"{planned.cell.name}.jsonl").as_posix()
    row = Row(cell_values(planned.machine, planned.backend, planned.cell, path))
    missing = planned.status == "planned"
    row.values |= dict.fromkeys(RATES)
    row.values |= {
        "status": MISSING if missing else planned.status,
        "reason": planned.reason or "the plan gives no reason",
        "adapter": planned.adapter,
        "device": planned.device,
        "flags": "",
    }
    if missing:
        row.values["reason"] = foreign_runs.missing_reason(elsewhere) if elsewhere else "no run yet"
        # What the config leaves out, no command brings back; the config has to change.
        row.set_commands(plan)
    return row


def _told(error: Exception) -> str:
    return clean(str(error) or type(error).__name__, 300)
