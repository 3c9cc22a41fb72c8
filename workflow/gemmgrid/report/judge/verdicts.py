"""From ratios to verdicts: which cells differ, over one cell or over thousands.

A difference counts when it is larger than MARGIN and larger than chance. The test is of the
hypothesis that the true ratio lies within 1/(1 + MARGIN) … 1 + MARGIN, so that differences too
small to matter are no discoveries however well they are measured; and the shift that a whole run
has against another one (its minutes, its placement), which processes of one run cannot show, has
room in that margin. Over many cells the share of false discoveries is held down by the
step-up procedure of Y. Benjamini, Y. Hochberg, "Controlling the false discovery rate" (J. R.
Statist. Soc. B 57, 1995); it holds for the positively dependent tests that cells of one machine
are (Benjamini, Yekutieli 2001).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log, sqrt

from gemmgrid.report.judge.statistics import Contrast
from gemmgrid.report.judge.student import t_distribution, t_quantile

MARGIN = 0.03
"""Builds, placement and weather move a cell by that much on a quiet machine: a difference has to be
larger, and two cells whose ratio surely lies within it are the same."""
FALSE_DISCOVERIES = 0.05
"""Largest expected share of wrong ones among the cells called faster or slower."""
LEAST_PROCESSES = 5
"""Fewer processes on a side give no verdict: their interval holds the truth too seldom."""
MOST_PROCESSES = 1000
"""More than that is no advice."""

VERDICTS = ("faster", "slower", "same", "cannot tell", "insufficient")


def p_value(found: Contrast, margin: float = MARGIN) -> float:
    """Chance of a difference at least this large where the true one is just the margin."""
    distance, bound = abs(found.centre), log(1 + margin)
    if found.error == 0:
        return 0.0 if distance > bound else 1.0
    error = sqrt(found.error)
    upper = 1 - t_distribution((distance - bound) / error, found.df)
    return min(1.0, upper + 1 - t_distribution((distance + bound) / error, found.df))


def adjusted(p_values: Sequence[float]) -> list[float]:
    """Benjamini and Hochberg's: the share of false discoveries at which each would be one."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    found = [1.0] * len(order)
    smallest = 1.0
    for rank in range(len(order), 0, -1):
        index = order[rank - 1]
        smallest = min(smallest, p_values[index] * len(order) / rank)
        found[index] = smallest
    return found


def verdict(found: Contrast | None, processes: int, share: float, margin: float = MARGIN) -> str:
    """One of VERDICTS for the first against the second.

    processes   on the side that has fewer
    share       the cell's adjusted p-value
    """
    if found is None or processes < LEAST_PROCESSES:
        return "insufficient"
    if share <= FALSE_DISCOVERIES:
        return "faster" if found.centre > 0 else "slower"
    limits = found.interval()
    if limits.low >= 1 / (1 + margin) and limits.high <= 1 + margin:
        return "same"
    return "cannot tell"


def processes_needed(
    found: Contrast | None, processes: tuple[int, int], margin: float = MARGIN
) -> int | None:
    """How many more processes each side needs for a verdict; None where no number would do.

    Below LEAST_PROCESSES: what is missing to them. Otherwise an estimate from the spread seen: as
    many as shrink the interval to the distance between the ratio and the margin.
    """
    few = min(processes)
    if found is None or few < LEAST_PROCESSES:
        return LEAST_PROCESSES - few if few < LEAST_PROCESSES else None
    distance = abs(abs(found.centre) - log(1 + margin))
    if distance == 0 or found.error == 0:
        return None
    spread = found.error * few  # of one process, both sides together
    total = ceil(spread * (1.96 / distance) ** 2)
    for _ in range(3):
        quantile = t_quantile(0.975, 2.0 * max(1, total - 1))
        total = ceil(spread * (quantile / distance) ** 2)
    return max(1, total - few) if total <= MOST_PROCESSES else None


def together(found: Sequence[Contrast]) -> Contrast | None:
    """The mean difference over cells: the geometric mean of their ratios, for just these cells.

    Its error is that of the processes alone; what other cells would show, it does not say.
    """
    if not found:
        return None
    count = len(found)
    centre = sum(one.centre for one in found) / count
    error = sum(one.error for one in found)
    parts = sum(one.error**2 / one.df for one in found)
    df = round(max(1.0, error**2 / parts), 3) if parts else 1.0
    return Contrast(centre, error / count**2, df)
