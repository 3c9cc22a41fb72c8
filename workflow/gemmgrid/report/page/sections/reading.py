"""How to read this page: what the words and the intervals mean."""

from __future__ import annotations

from typing import Any

from gemmgrid.records.run import FLAGS, STATUSES
from gemmgrid.report.judge.verdicts import MARGIN
from gemmgrid.report.page.view import View
from gemmgrid.report.read.evidence import MARKS
from gemmgrid.report.read.rows import MISSING
from gemmgrid.report.statistics import LEAST_ROUNDS

TITLE = "How to read this page"


def build(view: View) -> dict[str, Any]:
    kinds = {row["interval_kind"] for row in view.measured if row["interval_kind"]}
    return {
        "kinds": kinds,
        "flags": FLAGS,
        "statuses": {**STATUSES, MISSING: "planned, and not measured yet (in tables only)"},
        "marks": MARKS,
        "margin": MARGIN,
        "least_rounds": LEAST_ROUNDS,
    }
