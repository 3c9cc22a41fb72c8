"""The interval of a cell's rate, by the standard library: what a measuring process says of itself.

The same figures as the report's `judge.statistics`, which has SciPy; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, fsum, inf, log, sqrt
from statistics import NormalDist, median

_T_975 = (
    *(12.70620474, 4.30265273, 3.18244631, 2.77644511, 2.57058184, 2.44691185),
    *(2.36462425, 2.30600414, 2.26215716, 2.22813885, 2.20098516, 2.17881283),
)
"""Student's t for a two-sided 95 % interval with 1 to 12 degrees of freedom (Abramowitz and Stegun,
Handbook of Mathematical Functions, table 26.10, with more digits)."""


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


def interval(medians: Sequence[float]) -> tuple[float, float, float] | None:
    """(value, low, high): Student's 95 % interval over processes, in logarithms; None below two.

    medians   one positive number a process, any unit. The value is their median; the limits belong
              to their geometric mean and are widened to hold the median.
    """
    count = len(medians)
    if count < 2:
        return None
    logs = [log(one) for one in medians]
    centre = fsum(logs) / count
    deviation = sqrt(fsum((one - centre) ** 2 for one in logs) / (count - 1))
    half = t_975(count - 1) * deviation / sqrt(count)
    value = median(medians)
    high = exp(centre + half) if centre + half < 700 else inf
    return value, min(exp(centre - half), value), max(high, value)


def relative_half_width(medians: Sequence[float]) -> float | None:
    """Half the interval of the rate over the rate, from times of calls; None below two processes.

    A rate is one over a time, so its limits are those of the time turned round.
    """
    found = interval(medians)
    if found is None:
        return None
    value, low, high = found
    return (value / low - value / high) / 2 if low else inf
