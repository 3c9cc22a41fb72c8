"""The machines side by side, with what differs between them marked."""

from __future__ import annotations

from typing import Any

from gemmgrid.report.page.view import View
from gemmgrid.report.read import slurm
from gemmgrid.report.read.hardware import Fact, facts

TITLE = "Machines"

_NEVER_MARKED = ("described at", "SLURM node", "SLURM job")
_OUTSIDE = Fact("outside SLURM")


def build(view: View) -> dict[str, Any]:
    """One column a machine, one line a fact; facts that no machine knows are left out."""
    names = sorted(set(view.collection.machines) | {row["machine"] for row in view.cells})
    known = {name: facts(view.collection.machines.get(name)) for name in names}
    lines = []
    for label in next(iter(known.values()), {}):
        cells = [known[name][label] for name in names]
        if any(cell.text or cell.reason for cell in cells):
            lines.append({"label": label, "cells": cells, "differs": _differs(label, cells)})
    lines += _jobs(view, names)
    counts = {
        name: {
            "ok": sum(row["machine"] == name for row in view.measured),
            "all": sum(row["machine"] == name for row in view.cells),
            "recorded_as": _recorded_as(view, name),
            "foreign": sum(
                len(one.cells) for one in view.collection.foreign if one.machine == name
            ),
        }
        for name in names
    }
    undescribed = [name for name in names if view.collection.machines.get(name) is None]
    return {"names": names, "lines": lines, "counts": counts, "undescribed": undescribed}


def _jobs(view: View, names: list[str]) -> list[dict[str, Any]]:
    """A line for each fact about the jobs, where any machine was measured through SLURM."""
    jobs = {
        name: slurm.facts(row.slurm for row in view.cells if row["machine"] == name)
        for name in names
    }
    lines = []
    for label in dict.fromkeys(label for told in jobs.values() for label in told):
        cells = [Fact(jobs[name].get(label)) if jobs[name] else _OUTSIDE for name in names]
        lines.append({"label": label, "cells": cells, "differs": _differs(label, cells)})
    return lines


def _differs(label: str, cells: list[Fact]) -> bool:
    """Whether the machines are known to differ in this: what one does not tell is no difference."""
    return len({cell.text for cell in cells if cell.text}) > 1 and label not in _NEVER_MARKED


def _recorded_as(view: View, name: str) -> list[str]:
    """Other names under which the runs in this machine's folder were recorded."""
    names = {row["recorded_machine"] for row in view.cells if row["machine"] == name}
    return sorted(other for other in names if other and other != name)
