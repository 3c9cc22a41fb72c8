"""From samples to figures: medians, intervals over processes, spread, shape, and ratios.

Times and rates are handled as logarithms. The interval of a rate is then the interval of the time
turned round, no limit can become negative, and the ratio of two cells is a difference of means.
Intervals are over invocations (fresh processes), never over the samples of one process: samples of
one process share its placement in memory and its clocks, and an interval from them holds the true
value far too seldom. Sources: A. Georges, D. Buytaert, L. Eeckhout, "Statistically rigorous Java
performance evaluation" (OOPSLA 2007); T. Hoefler, R. Belli, "Scientific benchmarking of parallel
computing systems" (SC 2015).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import exp, fsum, inf, log, sqrt

import numpy as np
from numpy.typing import NDArray

from gemmgrid.report.judge.student import t_quantile

CONFIDENCE = 0.95
Samples = Sequence[float] | NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """A value with the limits of its 95 % interval, in the unit of what was given."""

    value: float
    low: float
    high: float


def median(values: Samples) -> float:
    """The middle of the values (mean of the two middle ones); ValueError for none."""
    if len(values) == 0:
        raise ValueError("no values, so no median")
    return float(np.median(np.asarray(values, dtype=np.float64)))


def interval(medians: Sequence[float], confidence: float = CONFIDENCE) -> Interval | None:
    """Student's t interval over the medians of invocations, taken in logarithms; None below two.

    medians: one positive number an invocation, any unit. The value is their median; the limits
    belong to their geometric mean and are widened to hold the median where an outlier among seven
    or more would leave it outside.
    """
    if len(medians) < 2:
        return None
    logs = np.log(np.asarray(medians, dtype=np.float64))
    centre = float(logs.mean())
    half = t_quantile(0.5 + confidence / 2, len(logs) - 1) * float(logs.std(ddof=1))
    half /= sqrt(len(logs))
    value = median(medians)
    return Interval(value, min(_exp(centre - half), value), max(_exp(centre + half), value))


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


@dataclass(frozen=True)
class Contrast:
    """The difference of two mean logarithms: centre (above 0: the first is faster), the square of
    its standard error, and Welch's degrees of freedom."""

    centre: float
    error: float
    df: float

    def interval(self, confidence: float = CONFIDENCE) -> Interval:
        """The ratio of the two with its interval."""
        half = t_quantile(0.5 + confidence / 2, self.df) * sqrt(self.error) if self.error else 0.0
        return Interval(_exp(self.centre), _exp(self.centre - half), _exp(self.centre + half))


def contrast(first: Sequence[float], second: Sequence[float]) -> Contrast | None:
    """Two sides' medians of invocations, in the same unit of time; None below two each.

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


def ratio(
    first: Sequence[float], second: Sequence[float], confidence: float = CONFIDENCE
) -> Interval | None:
    """How many times as fast the first is as the second: its 95 % interval; None below two each.

    Both are medians of invocations in the same unit of time. Welch's interval for the difference
    of the mean logarithms; the value is the ratio of the geometric means. Above 1 the first is the
    faster one.
    """
    found = contrast(first, second)
    return found.interval(confidence) if found else None


@lru_cache(maxsize=65536)
def _logs(values: tuple[float, ...]) -> tuple[float, float]:
    """Mean of the logarithms, and the square of its standard error; two or more values."""
    logs = [log(value) for value in values]
    mean = fsum(logs) / len(logs)
    variance = fsum((one - mean) ** 2 for one in logs) / (len(logs) - 1)
    return mean, variance / len(logs)


def _exp(value: float) -> float:
    """exp without OverflowError: the interval of two very different values may be unbounded."""
    return exp(value) if value < 700 else inf


def _least(error: float) -> float:
    """A denominator for variances so small that their squares vanish: df becomes 1e6."""
    return error**2 / 1e6 or 5e-324
