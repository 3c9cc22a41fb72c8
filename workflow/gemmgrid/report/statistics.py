"""Of samples: their spread and shape. Of two cells: the ratio of their times, with its interval.

A cell's own time and interval are `records.statistics`; the ratio of two is of the same estimand, a
difference of mean logarithms.
"""

from __future__ import annotations

from collections.abc import Sequence
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
class Contrast:
    """The difference of two mean logarithms: centre (above 0: the first is faster), the square of
    its standard error, and Welch's degrees of freedom."""

    centre: float
    error: float
    df: float

    def interval(self) -> Interval:
        """The ratio of the two with its interval."""
        half = t_quantile(0.975, self.df) * sqrt(self.error) if self.error else 0.0
        limits = (bounded_exp(self.centre + side) for side in (0.0, -half, half))
        return Interval(*limits)


@lru_cache(maxsize=4096)
def t_quantile(p: float, df: float) -> float:
    """The t below which Student's t with `df` (> 0) degrees of freedom falls with probability p.

    t_quantile(0.975, 4) is 2.776: the factor of a 95 % interval over five values.
    """
    # scipy.special alone loads in a quarter of the time that scipy.stats takes, and only here.
    from scipy.special import stdtrit

    return float(stdtrit(df, p))


def contrast(first: Sequence[float], second: Sequence[float]) -> Contrast | None:
    """How two sides' times, a value a round or process, differ; None below two each.

    Welch's: the two may differ in spread and in number.
    """
    if len(first) < 2 or len(second) < 2:
        return None
    (mean_a, error_a), (mean_b, error_b) = _logs(tuple(first)), _logs(tuple(second))
    error = error_a + error_b
    df = 1.0
    if error:
        parts = error_a**2 / (len(first) - 1) + error_b**2 / (len(second) - 1)
        df = round(max(error**2 / (parts or _least(error)), 1.0), 3)
    return Contrast(mean_b - mean_a, error, df)


def ratio(first: Sequence[float], second: Sequence[float]) -> Interval | None:
    """How many times as fast the first is as the second: the ratio of the geometric means, with
    its 95 % interval; None below two values each. Above 1 the first is the faster one."""
    found = contrast(first, second)
    return found.interval() if found else None


@lru_cache(maxsize=65536)
def _logs(values: tuple[float, ...]) -> tuple[float, float]:
    """A cell stands in many pairs: what they need of it is computed once."""
    return of_logs(values)


def _least(error: float) -> float:
    """A denominator for variances so small that their squares vanish: df becomes 1e6."""
    return error**2 / 1e6 or 5e-324
