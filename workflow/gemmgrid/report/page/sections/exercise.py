"""The lesson's exercise: expression, routine, TFLOP/s, one row a backend and machine."""

from __future__ import annotations

from typing import Any

from gemmgrid.report.draw.panels import is_square, shape_text
from gemmgrid.report.page.evidence_text import routine
from gemmgrid.report.page.view import View
from gemmgrid.report.read.rows import Row

TITLE = "The exercise"
EXERCISE_SIZE = 4096
"""The lesson's exercise: a 4096³ product in float32."""


def build(view: View) -> dict[str, Any]:
    """The 4096³ float32 product of every backend; the largest square one where that is missing."""
    products = [
        row
        for row in view.cells
        if row["routine"] == "gemm"
        and row["dtype"] == "float32"
        and not row["options"]
        and is_square(row)
        and row["status"] != "excluded"
    ]
    ranked = [row for row in products if row.comparable or not row.measured]
    by_series: dict[tuple[str, str], list[Row]] = {}
    for row in ranked:
        by_series.setdefault((row["machine"], row["backend"]), []).append(row)
    chosen = [_chosen(rows) for rows in by_series.values()]
    fastest = max((row["gflops"] for row in chosen if row["gflops"]), default=1.0)
    entries = [
        {
            "row": row,
            "shape": shape_text(row),
            "tflops": row["gflops"] / 1000 if row["gflops"] else None,
            "low": row["gflops_low"] / 1000 if row["gflops_low"] else None,
            "high": row["gflops_high"] / 1000 if row["gflops_high"] else None,
            "bar": 100 * row["gflops"] / fastest if row["gflops"] else 0,
            **routine(row),
        }
        for row in sorted(chosen, key=lambda row: (row["machine"], -(row["gflops"] or 0)))
    ]
    asked = sum(row["n"] == EXERCISE_SIZE for row in chosen)
    return {
        "entries": entries,
        "size": EXERCISE_SIZE,
        "asked": asked,
        "wrong_threads": len(products) - len(ranked),
    }


def _chosen(rows: list[Row]) -> Row:
    """The exercise's size if there, else the largest; there, the fastest thread count."""
    sizes = {row["n"] for row in rows}
    measured = {row["n"] for row in rows if row["gflops"]}
    size = EXERCISE_SIZE if EXERCISE_SIZE in sizes else max(measured or sizes)
    alike = [row for row in rows if row["n"] == size]
    return max(alike, key=lambda row: (row["gflops"] or 0, row["threads"]))
