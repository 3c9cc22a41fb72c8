"""Runs in a machine's folder that another machine made, apart from everything else."""

from __future__ import annotations

from typing import Any

from gemmgrid.report.page.view import View
from gemmgrid.report.read import slurm
from gemmgrid.report.read.foreign_runs import ForeignRuns
from gemmgrid.report.read.rows import reading_order

TITLE = "Made on another machine"
MOST_ROWS = 60


def build(view: View) -> dict[str, Any]:
    return {"entries": [_entry(one) for one in view.collection.foreign]}


def _entry(one: ForeignRuns) -> dict[str, Any]:
    rows = sorted(one.cells, key=reading_order)
    jobs = slurm.facts(row.slurm for row in one.cells)
    named = (("host id", "host_id"), ("GPU", "gpu"))
    known = {label: ", ".join(_all(one, column)) for label, column in named}
    return {
        "name": one.name,
        "machine": one.machine,
        "differences": one.differences,
        "count": len(rows),
        "measured": sum(row.measured for row in rows),
        "facts": {label: text for label, text in known.items() if text} | jobs,
        "in_slurm": bool(jobs),
        "rows": rows[:MOST_ROWS],
        "left_out": max(0, len(rows) - MOST_ROWS),
    }


def _all(one: ForeignRuns, column: str) -> list[str]:
    """The different values of a column, in the order met."""
    return list(dict.fromkeys(row[column] for row in one.runs if row[column]))
