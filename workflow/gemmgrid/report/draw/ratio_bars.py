"""Pairs of sides as the page shows them: groups, and each ratio as a bar with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from typing import Any

from gemmgrid.records.statistics import Interval
from gemmgrid.report.judge.compare import Comparison, Pair, summaries, told
from gemmgrid.report.judge.verdicts import MARGIN, VERDICTS
from gemmgrid.report.statistics import LEAST_ROUNDS

MOST_ROWS = 300


def shown(pairs: Sequence[Pair], most: int, most_rows: int = MOST_ROWS) -> dict[str, Any]:
    """What a section that compares gives its template: the first pairs, drawn, how many are left
    out, and the words of the verdicts."""
    return {
        "pairs": [entry(pair, most_rows) for pair in pairs[:most]],
        "left_out": max(0, len(pairs) - most),
        "verdicts": VERDICTS,
        "margin": MARGIN,
        "least_rounds": LEAST_ROUNDS,
    }


def entry(pair: Pair, most_rows: int = MOST_ROWS) -> dict[str, Any]:
    """A pair with everything that its template needs."""
    edges = [edge for one in pair.comparisons for edge in _edges(one) if edge > 0]
    # The scale holds all ratios and 1; intervals wider than a hundredfold are cut at its ends.
    scale = min(max(log(1.1), *(abs(log(edge)) for edge in edges)), log(100))
    return {
        "pair": pair,
        "counts": pair.counts,
        "groups": summaries(pair.comparisons),
        "changes": told(pair.common_changes),
        "rows": [_drawn(one, scale, pair) for one in pair.comparisons[:most_rows]],
        "left_out": len(pair.comparisons) - most_rows,
        "least": exp(-scale),
        "most": exp(scale),
    }


def _edges(comparison: Comparison) -> tuple[float, float]:
    ratio = comparison.ratio
    limits = comparison.interval or Interval(ratio, ratio, ratio)
    return limits.low, limits.high


def _drawn(comparison: Comparison, scale: float, pair: Pair) -> dict[str, Any]:
    """The comparison with its interval as percentages of the width of a bar."""

    def place(value: float) -> float:
        position = log(value) / scale if value > 0 else -1.0
        return round(50 + 50 * max(-1.0, min(1.0, position)), 2)

    low, high = map(place, _edges(comparison))
    return {
        "comparison": comparison,
        "left": low,
        "width": round(max(high - low, 0.6), 2),
        "point": place(comparison.ratio),
        "changes": told(pair.own_changes(comparison), 6),
    }
