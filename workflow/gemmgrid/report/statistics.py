"""Estimates with their errors: of a cell's time over its runs, of the ratio of two cells' times.

A cell's time and its interval within one run are `records.statistics`; all that is here is of the
same estimand, a mean of logarithms or a difference of two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from gemmgrid.records.statistics import Interval, bounded_exp, of_logs

LEAST_ROUNDS = 3
"""A verdict needs them, of those in which a process met the machine's best state: Student's
interval over two is twelve standard errors wide, and one over one round holds the true value far
less often than it says."""
ROUNDS = 5
"""What is asked for where there are too few."""
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


def over_runs(latest: Estimate, others: Sequence[Estimate]) -> Estimate:
    """The latest run's estimate with an error that holds the spread between runs, too.

    The variance between the runs of one cell is estimated by moments: what their means differ by,
    less what the errors within them explain (W. G. Cochran, "The combination of estimates from
    different experiments", Biometrics 10, 1954; R. DerSimonian, N. Laird, "Meta-analysis in
    clinical trials", Controlled Clinical Trials 7, 1986). It is added to the latest run's own
    error, with degrees of freedom after Satterthwaite. The interval never becomes narrower.
    """
    if not others:
        return latest
    runs = [latest, *others]
    middle = sum(one.centre for one in runs) / len(runs)
    spread = sum((one.centre - middle) ** 2 for one in runs) / len(others)
    between = spread - sum(one.error for one in runs) / len(runs)
    if between <= 0:
        return latest
    df = _satterthwaite([(latest.error, latest.df), (between, float(len(others)))])
    wider = Estimate(latest.centre, latest.error + between, df, between)
    return wider if wider.half > latest.half else latest


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
