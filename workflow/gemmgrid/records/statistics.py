"""A cell's time and its interval, the same for the terminal of a measurement and for the report.

A process's figure is the median of its samples. Over processes the figure is the geometric mean,
everywhere: a cell's time, its interval and the ratio of two cells are of one estimand, so that
equal times have the ratio 1. Times are handled as logarithms: the interval of a rate is that of
the time turned round, and no limit can become negative. Intervals are over processes, and over
rounds where there are several, never over the samples of one process: samples of one process share
its placement in memory and its clocks, processes of one round share its minutes, and intervals
over them hold the true value far too seldom. Sources: A. Georges, D. Buytaert, L. Eeckhout,
"Statistically rigorous Java performance evaluation" (OOPSLA 2007); T. Hoefler, R. Belli,
"Scientific benchmarking of parallel computing systems" (SC 2015).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import exp, fsum, inf, log, sqrt
from statistics import NormalDist
from typing import NamedTuple, TypeVar

Round = TypeVar("Round", bound=Hashable)

_T_975 = (
    *(12.70620474, 4.30265273, 3.18244631, 2.77644511, 2.57058184, 2.44691185),
    *(2.36462425, 2.30600414, 2.26215716, 2.22813885, 2.20098516, 2.17881283),
)
"""Student's t for a two-sided 95 % interval with 1 to 12 degrees of freedom (Abramowitz and Stegun,
Handbook of Mathematical Functions, table 26.10, with more digits)."""


WIDEST = 100.0
NOISY = 0.05
"""An interval that reaches further than this share from its value is wide."""


class Interval(NamedTuple):
    """A value with the limits of its 95 % interval, in the unit of what was given."""

    value: float
    low: float
    high: float


def is_wide(found: Interval | None) -> bool:
    """Whether the flag `noisy` is earned."""
    return found is not None and found.high > found.value * (1 + NOISY)


def t_975(df: int) -> float:
    """The t below which Student's t with `df` >= 1 degrees of freedom falls in 97.5 % of cases.

    Past the table by Abramowitz and Stegun 26.7.5, which is right to six digits there.
    """
    if df <= len(_T_975):
        return _T_975[df - 1]
    x = NormalDist().inv_cdf(0.975)
    terms = (
        (x**3 + x) / 4,
        (5 * x**5 + 16 * x**3 + 3 * x) / 96,
        (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / 384,
        (79 * x**9 + 776 * x**7 + 1482 * x**5 - 1920 * x**3 - 945 * x) / 92160,
    )
    return x + sum(term / df**power for power, term in enumerate(terms, 1))


def mean(values: Sequence[float]) -> float:
    """The geometric mean; ValueError for no values, or for one that is not above 0."""
    if not values:
        raise ValueError("no values, so no mean")
    return exp(fsum(map(log, values)) / len(values))


def round_means(medians: Sequence[float], rounds: Sequence[Round]) -> dict[Round, float]:
    """Of each round the mean of its processes' medians; rounds: of each process."""
    grouped: dict[Round, list[float]] = {}
    for value, number in zip(medians, rounds, strict=True):
        grouped.setdefault(number, []).append(value)
    return {number: mean(values) for number, values in grouped.items()}


def by_round(medians: Sequence[float], rounds: Sequence[Hashable]) -> list[float]:
    """What intervals are taken over: one value a round, the mean of its processes' medians.

    rounds: of each process. Where all are of one round: the processes' own medians.
    """
    means = round_means(medians, rounds)
    return list(means.values()) if len(means) > 1 else list(medians)


def of_logs(values: Sequence[float]) -> tuple[float, float]:
    """Mean of the logarithms, and the square of its standard error; two or more values above 0."""
    logs = list(map(log, values))
    centre = fsum(logs) / len(logs)
    variance = fsum((one - centre) ** 2 for one in logs) / (len(logs) - 1)
    return centre, variance / len(logs)


def interval(values: Sequence[float]) -> Interval | None:
    """The geometric mean with Student's 95 % interval, taken in logarithms.

    None below two values, and where the limits would be further apart than a factor of `WIDEST`:
    such values tell nothing, and limits of 10²⁰ would only drown what stands beside them.

    values   one positive number a round or process, any unit
    """
    if len(values) < 2:
        return None
    centre, error = of_logs(values)
    half = t_975(len(values) - 1) * sqrt(error)
    if 2 * half > log(WIDEST):
        return None
    return Interval(exp(centre), exp(centre - half), exp(centre + half))


def bounded_exp(value: float) -> float:
    """exp without OverflowError: the interval of two very different values may be unbounded."""
    return exp(value) if value < 700 else inf


def relative_half_width(values: Sequence[float]) -> float | None:
    """Half the interval of the rate over the rate, from times of calls; None below two values.

    A rate is one over a time, so its limits are those of the time turned round.
    """
    found = interval(values)
    if found is None:
        return None
    return (found.value / found.low - found.value / found.high) / 2
