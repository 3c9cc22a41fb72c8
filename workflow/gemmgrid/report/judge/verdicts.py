"""From ratios to verdicts: which cells differ, over one cell or over thousands.

A difference counts when it is larger than MARGIN and larger than chance. The test is of the
hypothesis that the true ratio lies within 1/(1 + MARGIN) … 1 + MARGIN, so that differences too
small to matter are no discoveries however well they are measured; and the shift that a whole run
has against another one (its minutes, its placement), which processes of one run cannot show, has
room in that margin. Over many cells the share of false discoveries is held down by the
step-up procedure of Y. Benjamini, Y. Hochberg, "Controlling the false discovery rate" (J. R.
Statist. Soc. B 57, 1995); it holds for the positively dependent tests that cells of one machine
are (Benjamini, Yekutieli 2001).

A verdict needs LEAST_ROUNDS rounds on both sides: docs/method.md shows how often the intervals of
one round and of five hold what repetitions find.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log, sqrt

from gemmgrid.report.statistics import LEAST_ROUNDS, ROUNDS, Estimate, t_quantile

MARGIN = 0.03
"""Builds, placement and weather move a cell by that much on a quiet machine: a difference has to be
larger, and two cells whose ratio surely lies within it are the same."""
FALSE_DISCOVERIES = 0.05
"""Largest expected share of wrong ones among the cells called faster or slower."""
MOST_ROUNDS = 100
"""More than that no config may ask for."""

VERDICTS = ("faster", "slower", "same", "cannot tell", "insufficient", "other state")


def p_value(found: Estimate, margin: float = MARGIN) -> float:
    """Chance of a difference at least this large where the true one is just the margin."""
    from scipy.special import stdtr  # P(T <= t); loaded by those who compare only

    distance, bound = abs(found.centre), log(1 + margin)
    if found.error == 0:
        return 0.0 if distance > bound else 1.0
    error = sqrt(found.error)
    tails = (stdtr(found.df, (side - distance) / error) for side in (bound, -bound))
    return min(1.0, float(sum(tails)))


def adjusted(p_values: Sequence[float]) -> list[float]:
    """Benjamini and Hochberg's: the share of false discoveries at which each would be one."""
    from scipy.stats import false_discovery_control

    return [float(one) for one in false_discovery_control(p_values)] if p_values else []


def level(shares: Sequence[float]) -> float:
    """The p-value that one more cell of a family needs to be a discovery, after Benjamini and
    Hochberg; shares: the family's adjusted p-values."""
    found = sum(share <= FALSE_DISCOVERIES for share in shares)
    return FALSE_DISCOVERIES * min(1.0, (found + 1) / max(1, len(shares)))


def verdict(found: Estimate | None, rounds: int, share: float, margin: float = MARGIN) -> str:
    """One of VERDICTS for the first against the second.

    rounds      on the side that has fewer
    share       the cell's adjusted p-value
    """
    if found is None or rounds < LEAST_ROUNDS:
        return "insufficient"
    if share <= FALSE_DISCOVERIES:
        return "faster" if found.centre > 0 else "slower"
    limits = found.interval()
    if limits.low >= 1 / (1 + margin) and limits.high <= 1 + margin:
        return "same"
    return "cannot tell"


def rounds_needed(
    found: Estimate | None,
    rounds: int,
    level: float = FALSE_DISCOVERIES,
    margin: float = MARGIN,
) -> int | None:
    """How many rounds each side needs, in all, for a verdict; None where no number would do.

    Below LEAST_ROUNDS: ROUNDS. Otherwise an estimate from the spread seen: as many as make a ratio
    outside the margin a discovery at `level`, or hold the interval of one inside it there.
    """
    if found is None or rounds < LEAST_ROUNDS:
        return ROUNDS
    distance = abs(found.centre) - log(1 + margin)
    probability = 1 - level if distance > 0 else 0.975
    spread = (found.error - found.between) * rounds  # of one round, both sides together
    total, sides = rounds, found.df / (rounds - 1)  # degrees of freedom a round: 1 where paired
    for _ in range(6):
        quantile = t_quantile(probability, sides * max(1, total - 1))
        room = (distance / quantile) ** 2 - found.between
        if room <= 0 or spread <= 0:
            return None
        total = min(ceil(spread / room), 10 * MOST_ROUNDS)
    return max(total, rounds + 1) if total <= MOST_ROUNDS else None


def together(found: Sequence[Estimate]) -> Estimate | None:
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
    return Estimate(centre, error / count**2, df)
