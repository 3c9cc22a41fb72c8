"""Before and after: each cell's latest run against its latest one in another context."""

from __future__ import annotations

from typing import Any

from gemmgrid.report.draw.ratio_bars import shown
from gemmgrid.report.judge.compare import before_and_after
from gemmgrid.report.page.view import View

TITLE = "Before and after a change"
MOST_MACHINES = 6


def build(view: View) -> dict[str, Any]:
    return shown(before_and_after(view.collection.runs), MOST_MACHINES)
