"""The answer: what the study asked for, then which backend is fastest for what, in ranked bars."""

from __future__ import annotations

from typing import Any

from gemmgrid.report.judge.findings import Answer, across_machines, answers
from gemmgrid.report.lesson.answers import answer
from gemmgrid.report.page.view import View
from gemmgrid.report.read.rows import Row
from gemmgrid.report.statistics import LEAST_ROUNDS

TITLE = "The answer"
OPEN = 6
"""Questions of one machine that are shown at once; the others are folded."""


def build(view: View) -> dict[str, Any]:
    by_machine: dict[str, list[dict[str, Any]]] = {}
    for one in answers(view.cells):
        by_machine.setdefault(one.machine, []).append(_shown(one))
    return {
        "study": answer(view.collection),
        "machines": by_machine,
        "across": [_shown(one) for one in across_machines(view.cells)],
        "least_rounds": LEAST_ROUNDS,
        "open": OPEN if len(by_machine) == 1 else 1,
    }


def _shown(one: Answer) -> dict[str, Any]:
    ranked = [entry.row for entry in one.ranked]
    ends = [row["gflops_high"] or row["gflops"] for row in (*ranked, *one.apart)]
    most = max(ends, default=1.0)
    bars = [_bar(one, row, most, apart=False) for row in ranked]
    bars += [_bar(one, row, most, apart=True) for row in one.apart]
    return {"topic": one.topic, "sentence": one.sentence, "bars": bars}


def _bar(one: Answer, row: Row, most: float, apart: bool) -> dict[str, Any]:
    low, high = row["gflops_low"], row["gflops_high"]
    return {
        "name": one.name(row),
        "row": row,
        "apart": apart,
        "share": 100 * row["gflops"] / most,
        "limits": (100 * low / most, 100 * (high - low) / most) if low else None,
    }
