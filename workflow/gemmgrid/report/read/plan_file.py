"""The plan as its reader sees it: results/.plan/plan.jsonl, written by the planning wing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from gemmgrid.records import commands
from gemmgrid.records.cell import Cell
from gemmgrid.records.files import read_regular
from gemmgrid.records.names import name_problem
from gemmgrid.report.read.fields import Fields
from gemmgrid.report.read.scan import tabulable

PLAN_FILE = Path(".plan") / "plan.jsonl"
PLAN_SCHEMA = 1
PLAN_STATUSES = ("planned", "excluded", "unsupported")

Key = tuple[str, str, str]
"""Machine, backend, cell's name: what names a cell anywhere under results/."""


@dataclass(frozen=True)
class Planned:
    """A line of the plan: a cell to measure, or one left out with its reason."""

    machine: str
    backend: str
    cell: Cell
    adapter: str | None
    device: str | None
    status: str
    reason: str | None

    @property
    def key(self) -> Key:
        return self.machine, self.backend, self.cell.name


@dataclass
class PlanView:
    """The current study: its name, the machine it is for, and its cells in the plan's order.

    machines: those that are reached through SLURM.
    """

    study: str | None = None
    machine: str | None = None
    deploy: str | None = None
    created_at: str | None = None
    configfiles: list[str] = field(default_factory=list)
    machines: list[str] = field(default_factory=list)
    cells: list[Planned] = field(default_factory=list)
    problems: list[tuple[int | None, str]] = field(default_factory=list)


def measure_again(
    path: str, deploy: str | None, plan: PlanView | None = None, rounds: int | None = None
) -> str:
    """What to type in the project's folder to measure the cell whose file is `path` again.

    deploy: conda, none or venv (the default), how its run was deployed; None for the plan's;
    plan: that of the study that has the cell, if any; rounds: into how many to divide it.
    """
    study = plan or PlanView()
    machine = PurePath(path).parts[-3:][0]
    slurm = machine in study.machines
    config = [f"machines={machine}"] if slurm else []
    config += [f"sampling={{rounds: {rounds}}}"] if rounds else []
    line = commands.words(
        deploy=deploy or study.deploy,
        slurm=slurm,
        configfiles=study.configfiles,
        config=config,
        again=path,
    )
    return commands.text(line)


def read(results: Path) -> PlanView | None:
    """The plan under `results`, or None where there is none. Bad lines become its problems."""
    try:
        lines = read_regular(results / PLAN_FILE).splitlines()
    except FileNotFoundError:
        return None
    except OSError as error:
        return PlanView(problems=[(None, f"cannot be read: {error.strerror}")])
    plan = PlanView()
    for number, line in enumerate(lines, start=1):
        try:
            document = json.loads(line)
            if number == 1:
                _read_header(plan, document)
            else:
                plan.cells.append(_planned(document))
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            plan.problems.append((number, f"not a line of a plan: {error}"))
            if number == 1:
                break
    if not lines:
        plan.problems.append((None, "empty"))
    return plan


def _read_header(plan: PlanView, document: Any) -> None:
    if not isinstance(document, Mapping) or document.get("kind") != "plan":
        raise ValueError("the first line is not a plan's header")
    if document.get("schema") != PLAN_SCHEMA:
        raise ValueError(f"schema {document.get('schema')!r} of a plan, this reads {PLAN_SCHEMA}")
    fields = Fields(document)
    plan.study, plan.machine = fields.text("study"), fields.text("machine")
    plan.deploy, plan.created_at = fields.text("deploy"), fields.text("created_at")
    plan.configfiles, plan.machines = fields.texts("configfiles"), fields.texts("machines")


def _planned(document: Any) -> Planned:
    if not isinstance(document, Mapping):
        raise ValueError("not an object")
    for key in ("machine", "backend"):
        problem = name_problem(document.get(key))
        if problem:
            raise ValueError(f"{key}: {problem}")
    status = document.get("status")
    if status not in PLAN_STATUSES:
        raise ValueError(f"status {status!r} is none of {', '.join(PLAN_STATUSES)}")
    if not isinstance(document.get("cell"), Mapping):
        raise ValueError("cell is not an object")
    fields = Fields(document)
    return Planned(
        machine=document["machine"],
        backend=document["backend"],
        cell=tabulable(Cell.from_json(document["cell"])),
        adapter=fields.text("adapter"),
        device=fields.text("device"),
        status=status,
        reason=fields.text("reason"),
    )
