"""Backend against backend, over the cells that both measured on the same machine."""

from __future__ import annotations

from typing import Any

from gemmgrid.report.draw.ratio_bars import shown
from gemmgrid.report.judge.compare import backend_pairs
from gemmgrid.report.page.view import View

TITLE = "Backend against backend"
MOST_PAIRS = 45
MOST_ROWS = 60


def build(view: View) -> dict[str, Any]:
    return shown(backend_pairs(view.cells), MOST_PAIRS, MOST_ROWS)
