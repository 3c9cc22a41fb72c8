"""The t quantile against published values and against its own distribution."""

from __future__ import annotations

import math

import pytest

from gemmgrid.report.judge.student import incomplete_beta, t_distribution, t_quantile

# NIST/SEMATECH e-Handbook of Statistical Methods, table 1.3.6.7.2.
PUBLISHED = {
    (0.975, 1): 12.706,
    (0.975, 2): 4.303,
    (0.975, 4): 2.776,
    (0.975, 9): 2.262,
    (0.975, 30): 2.042,
    (0.975, 100): 1.984,
    (0.975, math.inf): 1.960,
    (0.995, 1): 63.657,
    (0.995, 10): 3.169,
    (0.95, 5): 2.015,
    (0.9, 3): 1.638,
}


@pytest.mark.parametrize(("asked", "expected"), PUBLISHED.items())
def test_published_values(asked: tuple[float, float], expected: float) -> None:
    assert t_quantile(*asked) == pytest.approx(expected, abs=6e-4)


def test_one_degree_of_freedom_is_cauchy() -> None:
    for p in (0.6, 0.75, 0.975, 0.9999):
        assert t_quantile(p, 1) == pytest.approx(math.tan(math.pi * (p - 0.5)), rel=1e-9)


def test_two_degrees_of_freedom_in_closed_form() -> None:
    for p in (0.6, 0.9, 0.999):
        expected = (2 * p - 1) * math.sqrt(2 / (4 * p * (1 - p)))
        assert t_quantile(p, 2) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("df", [1, 2.5, 4, 17.3, 1000])
def test_quantile_inverts_the_distribution(df: float) -> None:
    for p in (0.5, 0.8, 0.975, 0.9995):
        assert t_distribution(t_quantile(p, df), df) == pytest.approx(p, abs=1e-12)


def test_distribution_is_symmetric() -> None:
    assert t_distribution(-1.7, 6) == pytest.approx(1 - t_distribution(1.7, 6), abs=1e-14)


def test_incomplete_beta_has_its_closed_forms() -> None:
    for x in (0.0, 0.1, 0.5, 0.93, 1.0):
        assert incomplete_beta(1, 1, x) == pytest.approx(x, abs=1e-14)
        assert incomplete_beta(3, 1, x) == pytest.approx(x**3, abs=1e-14)
        assert incomplete_beta(1, 4, x) == pytest.approx(1 - (1 - x) ** 4, abs=1e-14)


@pytest.mark.parametrize(("p", "df"), [(0.4, 3), (1.0, 3), (0.9, 0), (0.9, -1)])
def test_what_it_does_not_take(p: float, df: float) -> None:
    with pytest.raises(ValueError, match="t_quantile takes"):
        t_quantile(p, df)
