"""Machine against machine, over the cells that both measured."""

from __future__ import annotations

from collections import Counter
from math import exp, log
from typing import Any

from gemmgrid.report.compare import VERDICTS, Comparison, MachinePair, machine_pairs
from gemmgrid.report.statistics import MARGIN, median
from gemmgrid.report.view import View

TITLE = "Machine against machine"
MOST_PAIRS = 6
MOST_ROWS = 300


def build(view: View) -> dict[str, Any]:
    pairs = machine_pairs(view.cells)
    machines = sorted({row["machine"] for row in view.measured})
    return {
        "pairs": [_pair(pair) for pair in pairs[:MOST_PAIRS]],
        "left_out": len(pairs) - MOST_PAIRS,
        "machines": machines,
        "verdicts": VERDICTS,
        "margin": MARGIN,
    }


def _pair(pair: MachinePair) -> dict[str, Any]:
    edges = [edge for one in pair.comparisons for edge in (_low(one), _high(one)) if edge > 0]
    # The scale holds all ratios and 1; intervals wider than a hundredfold are cut at its ends.
    scale = min(max(log(1.1), *(abs(log(edge)) for edge in edges)), log(100))
    return {
        "pair": pair,
        "counts": pair.counts,
        "groups": _by_backend(pair),
        "rows": [_drawn(comparison, scale) for comparison in pair.comparisons[:MOST_ROWS]],
        "left_out": len(pair.comparisons) - MOST_ROWS,
        "least": exp(-scale),
        "most": exp(scale),
    }


def _by_backend(pair: MachinePair) -> list[dict[str, Any]]:
    """Per backend, routine and dtype: how many cells, their ratios' range, and the verdicts."""
    grouped: dict[tuple[str, ...], list[Comparison]] = {}
    for one in pair.comparisons:
        key = tuple(one.first[column] for column in ("backend", "routine", "dtype"))
        grouped.setdefault(key, []).append(one)
    groups = []
    for (backend, routine, dtype), members in sorted(grouped.items()):
        ratios = [one.plain for one in members]
        groups.append(
            {
                "backend": backend,
                "product": f"{routine} {dtype}",
                "count": len(members),
                "least": min(ratios),
                "middle": median(ratios),
                "most": max(ratios),
                "counts": Counter(one.verdict for one in members),
            }
        )
    return groups


def _low(comparison: Comparison) -> float:
    return min(comparison.plain, comparison.ratio.low) if comparison.ratio else comparison.plain


def _high(comparison: Comparison) -> float:
    return max(comparison.plain, comparison.ratio.high) if comparison.ratio else comparison.plain


def _drawn(comparison: Comparison, scale: float) -> dict[str, Any]:
    """The comparison with its interval as percentages of the width of a bar."""

    def place(value: float) -> float:
        position = log(value) / scale if value > 0 else -1.0
        return round(50 + 50 * max(-1.0, min(1.0, position)), 2)

    low, high = place(_low(comparison)), place(_high(comparison))
    return {
        "comparison": comparison,
        "left": low,
        "width": round(max(high - low, 0.6), 2),
        "point": place(comparison.ratio.value if comparison.ratio else comparison.plain),
    }
