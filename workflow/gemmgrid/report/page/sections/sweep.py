"""Rate against size."""

from __future__ import annotations

from typing import Any

from gemmgrid.report.draw import figures
from gemmgrid.report.draw.panels import MOST_PANELS, drawable, is_square, size_sweeps
from gemmgrid.report.page.view import View, listed

TITLE = "Rate against size"


def build(view: View) -> dict[str, Any]:
    panels = size_sweeps(view.measured)
    drawn = [
        {
            "title": panel.title,
            "note": _thread_note(panel.lines),
            "svg": figures.size_sweep(panel, view.palette, view.figure_id()),
        }
        for panel in panels[:MOST_PANELS]
    ]
    return {
        "panels": drawn,
        "left_out": len(panels) - len(drawn),
        "wrong_threads": len(view.measured) - len(drawable(view.measured)),
        "not_square": sum(not is_square(row) for row in view.measured),
        "palette": view.palette,
    }


def _thread_note(lines: dict[tuple[str, str], list[Any]]) -> str:
    """Which machine used how many threads, where they differ on one panel."""
    used: dict[str, set[int]] = {}
    for (machine, _), rows in lines.items():
        used.setdefault(machine, set()).update(row["threads"] for row in rows)
    if len(set().union(*used.values())) < 2:
        return ""
    return "threads: " + "; ".join(
        f"{machine} {listed(sorted(threads), 'or')}" for machine, threads in sorted(used.items())
    )
