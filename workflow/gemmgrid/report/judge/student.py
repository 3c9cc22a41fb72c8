"""Quantiles of Student's t distribution, without SciPy.

The distribution function is written with the regularised incomplete beta function (DLMF 8.17 and
Abramowitz & Stegun 26.7.1), that function as the continued fraction DLMF 8.17.22 evaluated by
Lentz's method, and the quantile is found by bisection. Degrees of freedom may be fractional, as
Welch's formula gives them.
"""

from __future__ import annotations

from functools import lru_cache
from math import exp, inf, lgamma, log, log1p

_TINY = 1e-300


def _fraction(a: float, b: float, x: float) -> float:
    """The incomplete beta function's continued fraction (DLMF 8.17.22); x < (a+1)/(a+b+2)."""
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1)
    d = 1 / (d if abs(d) > _TINY else _TINY)
    value = d
    for m in range(1, 500):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 + term * d
            d = 1 / (d if abs(d) > _TINY else _TINY)
            c = 1 + term / c
            c = c if abs(c) > _TINY else _TINY
            value *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return value


def incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function I_x(a, b) for a, b > 0 and 0 <= x <= 1."""
    if x <= 0 or x >= 1:
        return min(1.0, max(0.0, x))
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x))
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(a, b, x) / a
    return 1 - front * _fraction(b, a, 1 - x) / b


def t_distribution(t: float, df: float) -> float:
    """P(T <= t) for Student's t with `df` degrees of freedom (> 0)."""
    tail = 0.5 * incomplete_beta(df / 2, 0.5, df / (df + t * t))
    return 1 - tail if t > 0 else tail


@lru_cache(maxsize=4096)
def t_quantile(p: float, df: float) -> float:
    """The t below which Student's t falls with probability p (0.5 <= p < 1); df > 0, or inf.

    t_quantile(0.975, 4) is 2.776: the factor of a 95 % interval over five values.
    """
    if not 0.5 <= p < 1 or not df > 0:
        raise ValueError(f"t_quantile takes 0.5 <= p < 1 and df > 0, not p={p}, df={df}")
    df = min(df, 1e7)  # from there on it is the normal distribution to seven digits
    low, high = 0.0, 1.0
    while t_distribution(high, df) < p:
        low, high = high, high * 2
        if high == inf:
            raise ValueError(f"no finite t has probability {p} below it with df={df}")
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if t_distribution(middle, df) < p:
            low = middle
        else:
            high = middle
    return (low + high) / 2
