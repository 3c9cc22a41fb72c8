"""Of samples: their spread and shape. Of two cells: the ratio of their times, with its interval.

A cell's own time and interval are `records.statistics`; the ratio of two is of the same estimand, a
difference of mean logarithms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray

from gemmgrid.records.statistics import Interval, bounded_exp, of_logs

LEAST_ROUNDS = 5
"""Intervals over fewer rounds hold the true value too seldom to stand behind a verdict."""
NOISY = 0.05
"""An interval that reaches further than this share from its value is wide."""
SHAPE_FLAGS = ("noisy", "drift", "bimodal")
"""The flags that `shape_flags` decides."""
Samples = Sequence[float] | NDArray[np.float64]


def median(values: Samples) -> float:
    """The middle of the values (mean of the two middle ones); ValueError for none."""
    if len(values) == 0:
        raise ValueError("no values, so no median")
    return float(np.median(np.asarray(values, dtype=np.float64)))


def spread(samples: Samples) -> tuple[float, float] | None:
    """The quartiles of all samples: what a single batch of calls may show. None for no samples."""
    if len(samples) == 0:
        return None
    low, high = np.percentile(np.asarray(samples, dtype=np.float64), (25, 75))
    return float(low), float(high)


def is_bimodal(samples: Samples, smallest: float = 0.1, apart: float = 0.05) -> bool:
    """Whether the samples fall into two groups.

    The sorted logarithms are cut in two where the variance between the parts is greatest (Otsu's
    threshold). Two groups are found when each holds at least the share `smallest` of the samples,
    their means lie at least `apart` (relative) from each other, and Ashman's D, the distance over
    the groups' own spread, exceeds 4: one normal, uniform or exponential cloud cut that way stays
    below 3.6. Fewer than 20 samples show nothing.
    """
    if len(samples) < 20:
        return False
    logs = np.sort(np.log(np.asarray(samples, dtype=np.float64)))
    count = np.arange(1, len(logs))
    total = np.cumsum(logs)
    below = total[:-1] / count
    above = (total[-1] - total[:-1]) / (len(logs) - count)
    cut = int(np.argmax(count * (len(logs) - count) * (above - below) ** 2)) + 1
    low, high = logs[:cut], logs[cut:]
    distance = float(high.mean() - low.mean())
    if min(len(low), len(high)) < smallest * len(logs) or distance < log(1 + apart):
        return False
    return distance * sqrt(2) > 4 * sqrt(float(low.var() + high.var()))


def has_drift(invocations: Sequence[Samples], least: float = 0.05) -> bool:
    """Whether times rise or fall in the course of every invocation, or from one to the next.

    Within: the last third of the samples against the first third, the same way in all invocations
    and by more than `least` in the middle one. Between: at least five invocations whose medians
    only rise or only fall (1 in 60 by chance), by more than `least` in all.
    """
    changes = []
    for samples in invocations:
        third = len(samples) // 3
        if third >= 3:
            changes.append(log(median(samples[-third:]) / median(samples[:third])))
    if len(changes) >= 2 and (min(changes) > 0 or max(changes) < 0):
        middle = median([abs(change) for change in changes])
        if middle > log(1 + least):
            return True
    medians = [median(samples) for samples in invocations if len(samples)]
    steps = np.diff(np.log(np.asarray(medians))) if len(medians) >= 5 else np.zeros(0)
    ordered = len(steps) > 0 and (bool((steps > 0).all()) or bool((steps < 0).all()))
    return ordered and abs(float(steps.sum())) > log(1 + least)


def shape_flags(invocations: Sequence[Samples], limits: Interval | None) -> list[str]:
    """Which of SHAPE_FLAGS a cell earns by its samples, one array a process, and its interval."""
    wide = limits is not None and limits.high > limits.value * (1 + NOISY)
    found = (wide, has_drift(invocations), is_bimodal(np.concatenate(invocations)))
    return [flag for flag, true in zip(SHAPE_FLAGS, found, strict=True) if true]


@dataclass(frozen=True)
class Estimate:
    """A mean logarithm with its error: of a cell's time, or of the ratio of two cells' rates.

    centre    of a ratio: above 0 the first is the faster one
    error     the square of its standard error
    df        degrees of freedom of the error
    between   the part of the error that lies between runs, which more rounds make no smaller
    """

    centre: float
    error: float
    df: float
    between: float = 0.0

    @property
    def half(self) -> float:
        """Half of the 95 % interval, in logarithms."""
        return t_quantile(0.975, self.df) * sqrt(self.error) if self.error else 0.0

    def interval(self) -> Interval:
        """The value or ratio with its 95 % interval."""
        limits = (bounded_exp(self.centre + side) for side in (0.0, -self.half, self.half))
        return Interval(*limits)


@lru_cache(maxsize=4096)
def t_quantile(p: float, df: float) -> float:
    """The t below which Student's t with `df` (> 0) degrees of freedom falls with probability p.

    t_quantile(0.975, 4) is 2.776: the factor of a 95 % interval over five values.
    """
    # scipy.special alone loads in a quarter of the time that scipy.stats takes, and only here.
    from scipy.special import stdtrit

    return float(stdtrit(df, p))


def estimate(times: Sequence[float]) -> Estimate | None:
    """Of a cell's times, a value a round or process; None below two."""
    return Estimate(*of_logs(times), len(times) - 1.0) if len(times) > 1 else None


def unpaired(first: Estimate | None, second: Estimate | None) -> Estimate | None:
    """How many times as fast the first is, from two times with errors of their own.

    Welch's: the two may differ in spread and in number.
    """
    if first is None or second is None:
        return None
    error = first.error + second.error
    df = _satterthwaite([(first.error, first.df), (second.error, second.df)])
    between = first.between + second.between
    return Estimate(second.centre - first.centre, error, df, between)


def paired(first: Mapping[int, float], second: Mapping[int, float]) -> Estimate | None:
    """How many times as fast the first is, from the ratio within each round that both have.

    What a round does to both sides, its minute and its placement, is in no ratio; so the interval
    is over the rounds' ratios, with rounds - 1 degrees of freedom. This is duet benchmarking with
    the two sides after one another, because a product takes all CPUs (L. Bulej, V. Horky, P. Tuma,
    F. Farquet, A. Prokopec, "Duet benchmarking: improving measurement accuracy in the cloud", ICPE
    2020, arXiv 2001.05811). None below two rounds.

    first, second   round -> seconds per call
    """
    return estimate([second[number] / first[number] for number in first if number in second])


def _satterthwaite(parts: Sequence[tuple[float, float]]) -> float:
    """Degrees of freedom of a sum of errors, each with its own (F. E. Satterthwaite, "An
    approximate distribution of estimates of variance components", Biometrics Bulletin 2, 1946)."""
    error = sum(part for part, _ in parts)
    if not error:
        return 1.0
    # Variances may be so small that their squares vanish: then 1e6.
    spread = sum(part**2 / df for part, df in parts) or error**2 / 1e6 or 5e-324
    return round(max(error**2 / spread, 1.0), 3)


def ratio(first: Sequence[float], second: Sequence[float]) -> Interval | None:
    """How many times as fast the first is as the second, unpaired: the ratio of the geometric
    means, with its 95 % interval; None below two values each."""
    found = unpaired(estimate(first), estimate(second))
    return found.interval() if found else None
