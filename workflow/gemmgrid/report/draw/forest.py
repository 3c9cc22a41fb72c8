"""Pairs of sides as the page and the terminal show them: groups, bars, and what changed."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from typing import Any

from gemmgrid.records.context import describe
from gemmgrid.report.judge.compare import Comparison, Pair, summaries
from gemmgrid.report.read.fields import clean

MOST_ROWS = 300
MOST_CHANGES = 20
LONGEST_CHANGE = 160


def entry(pair: Pair, most_rows: int = MOST_ROWS) -> dict[str, Any]:
    """A pair with everything that its template needs."""
    edges = [edge for one in pair.comparisons for edge in (_low(one), _high(one)) if edge > 0]
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


def told(changes: dict[str, tuple[Any, Any]], most: int = MOST_CHANGES) -> list[str]:
    """Changes of a context in words, one a line, the rest counted."""
    lines = [clean(describe(key, pair), LONGEST_CHANGE) for key, pair in changes.items()]
    if len(lines) > most:
        return [*lines[:most], f"… and {len(lines) - most} more"]
    return lines


def own_changes(one: Comparison, pair: Pair) -> dict[str, tuple[Any, Any]]:
    """The changes of this cell that not all the others have too."""
    common = pair.common_changes
    return {key: change for key, change in one.changes.items() if key not in common}


def advice(one: Comparison) -> str:
    """What a cell without a verdict needs: `3 more processes`."""
    needed = one.needed
    if needed is None:
        return ""
    return f"{needed} more process{'' if needed == 1 else 'es'}"


def _low(comparison: Comparison) -> float:
    return min(comparison.plain, comparison.ratio.low) if comparison.ratio else comparison.plain


def _high(comparison: Comparison) -> float:
    return max(comparison.plain, comparison.ratio.high) if comparison.ratio else comparison.plain


def _drawn(comparison: Comparison, scale: float, pair: Pair) -> dict[str, Any]:
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
        "advice": advice(comparison),
        "changes": told(own_changes(comparison, pair), 6),
    }


def shown(pairs: Sequence[Pair], most: int, most_rows: int = MOST_ROWS) -> dict[str, Any]:
    """The first pairs, drawn, and how many are left out."""
    return {
        "pairs": [entry(pair, most_rows) for pair in pairs[:most]],
        "left_out": max(0, len(pairs) - most),
    }
