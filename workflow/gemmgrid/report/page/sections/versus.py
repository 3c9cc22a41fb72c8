"""Machine against machine, over the cells that both measured."""

from __future__ import annotations

from typing import Any

from gemmgrid.report.draw.ratio_bars import shown
from gemmgrid.report.judge.compare import machine_pairs
from gemmgrid.report.page.view import View

TITLE = "Machine against machine"
MOST_PAIRS = 6


def build(view: View) -> dict[str, Any]:
    machines = sorted({row["machine"] for row in view.measured})
    return {**shown(machine_pairs(view.cells), MOST_PAIRS), "machines": machines}
