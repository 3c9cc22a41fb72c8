"""Whether the samples of a run fall into two groups, or drift: its flags `bimodal` and `drift`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from math import fsum, log, sqrt
from statistics import median, pvariance

Samples = Sequence[float]

FEWEST = 20
"""Samples below which no groups are looked for."""
SMALLEST_GROUP = 0.1
"""Share of the samples that a group holds at least."""
APART = 0.05
"""By how much, relatively, the groups' means, or the ends of a drift, differ at least."""
SEPARATE = 4.0
"""Ashman's D from which on two groups are two: one normal, uniform or exponential cloud that is cut
in two stays below 3.6."""


def is_bimodal(samples: Samples) -> bool:
    """Whether the samples fall into two groups.

    The sorted logarithms are cut in two where the variance between the parts is greatest (Otsu's
    threshold), and Ashman's D, the distance over the groups' own spread, decides.
    """
    count = len(samples)
    if count < FEWEST:
        return False
    logs = sorted(map(log, samples))
    total, sums = fsum(logs), list(accumulate(logs))

    def between(below: int) -> float:
        low, high = sums[below - 1] / below, (total - sums[below - 1]) / (count - below)
        return below * (count - below) * (high - low) ** 2

    cut = max(range(1, count), key=between)
    low, high = logs[:cut], logs[cut:]
    distance = fsum(high) / len(high) - fsum(low) / len(low)
    if min(len(low), len(high)) < SMALLEST_GROUP * count or distance < log(1 + APART):
        return False
    return distance * sqrt(2) > SEPARATE * sqrt(pvariance(low) + pvariance(high))


def has_drift(processes: Sequence[Samples]) -> bool:
    """Whether times rise or fall in the course of every process, or from one to the next.

    Within: the last third of the samples against the first third, the same way in all processes
    and by more than APART in the middle one. Between: at least five processes whose medians only
    rise or only fall (1 in 60 by chance), by more than APART in all.
    """
    changes = []
    for samples in processes:
        third = len(samples) // 3
        if third >= 3:
            changes.append(log(median(samples[-third:]) / median(samples[:third])))
    one_way = len(changes) >= 2 and (min(changes) > 0 or max(changes) < 0)
    if one_way and median(map(abs, changes)) > log(1 + APART):
        return True
    medians = [median(samples) for samples in processes if len(samples)]
    steps = [log(after / before) for before, after in pairwise(medians)]
    if len(medians) < 5 or not (min(steps) > 0 or max(steps) < 0):
        return False
    return abs(fsum(steps)) > log(1 + APART)
