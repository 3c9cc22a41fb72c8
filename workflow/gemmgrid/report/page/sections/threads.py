"""How the rate grows with threads."""

from __future__ import annotations

from typing import Any

from gemmgrid.report.draw import figures
from gemmgrid.report.draw.panels import MOST_PANELS, Panel, drawable, thread_scalings
from gemmgrid.report.page.view import View

TITLE = "Thread scaling"


def build(view: View) -> dict[str, Any]:
    panels = thread_scalings(view.measured)
    drawn = [
        {
            "title": panel.title,
            "svg": figures.thread_scaling(panel, view.palette, view.figure_id()),
            "counts": panel.xs,
            "lines": _numbers(panel),
            "several": len({machine for machine, _ in panel.lines}) > 1,
        }
        for panel in panels[:MOST_PANELS]
    ]
    return {
        "panels": drawn,
        "left_out": len(panels) - len(drawn),
        "wrong_threads": len(view.measured) - len(drawable(view.measured)),
        "palette": view.palette,
    }


def _numbers(panel: Panel) -> list[dict[str, Any]]:
    """Per series: GFLOP/s, speed-up over one thread and efficiency by thread count."""
    lines = []
    for (machine, backend), rows in panel.lines.items():
        base = rows[0]["gflops"]
        lines.append(
            {
                "machine": machine,
                "backend": backend,
                "cells": {
                    row["threads"]: {
                        "gflops": row["gflops"],
                        "speedup": row["gflops"] / base,
                        "efficiency": row["gflops"] / base / row["threads"],
                    }
                    for row in rows
                },
            }
        )
    return lines
