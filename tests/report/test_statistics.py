"""Intervals, shapes and ratios: by hand, and by simulation with seeds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gemmgrid.records.statistics import interval, mean
from gemmgrid.report import statistics
from gemmgrid.report.statistics import Interval

TRIALS = 2000


# NIST/SEMATECH e-Handbook of Statistical Methods, table 1.3.6.7.2.
@pytest.mark.parametrize(
    ("p", "df", "expected"),
    [(0.975, 1, 12.706), (0.975, 4, 2.776), (0.975, 100, 1.984), (0.995, 10, 3.169)],
)
def test_published_quantiles(p: float, df: float, expected: float) -> None:
    assert statistics.t_quantile(p, df) == pytest.approx(expected, abs=6e-4)


def test_shape_flags() -> None:
    steady = [np.full(30, 1.0)] * 3
    assert statistics.shape_flags(steady, Interval(1.0, 0.99, 1.01)) == []
    assert statistics.shape_flags(steady, Interval(1.0, 0.9, 1.1)) == ["noisy"]
    assert statistics.shape_flags([np.linspace(1.0, 1.2, 60)] * 3, None) == ["drift"]
    halves = [np.array([1.0, 2.0] * 30)] * 3
    assert statistics.shape_flags(halves, None) == ["bimodal"]


def test_spread_is_the_quartiles() -> None:
    assert statistics.spread(list(range(101))) == (25.0, 75.0)
    assert statistics.spread([]) is None


SHAPES = {
    "normal": lambda rng: np.exp(0.05 * rng.standard_normal(200)),
    "narrow": lambda rng: np.exp(0.001 * rng.standard_normal(200)),
    "uniform": lambda rng: 1 + rng.random(200),
    "exponential": lambda rng: 1 + rng.exponential(1.0, 200),
    "long tail": lambda rng: np.exp(rng.standard_normal(200)),
    "one outlier": lambda rng: np.append(np.exp(0.01 * rng.standard_normal(199)), 30.0),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_one_cloud_is_not_bimodal(shape: str) -> None:
    rng = np.random.default_rng(3)
    found = sum(statistics.is_bimodal(SHAPES[shape](rng)) for _ in range(300))
    assert found <= 3


@pytest.mark.parametrize("share", [0.25, 0.5, 0.75])
def test_two_clouds_are_bimodal(share: float) -> None:
    rng = np.random.default_rng(4)
    for _ in range(100):
        high = rng.random(200) < share
        samples = np.where(high, 1.3, 1.0) * np.exp(0.02 * rng.standard_normal(200))
        assert statistics.is_bimodal(samples)


def test_two_groups_too_close_to_matter_are_none() -> None:
    samples = [1.0] * 50 + [1.01] * 50
    assert not statistics.is_bimodal(samples)


def test_few_samples_show_no_groups() -> None:
    assert not statistics.is_bimodal([1.0] * 9 + [2.0] * 9)


def test_drift_within_every_invocation() -> None:
    rising = [np.linspace(1.0, 1.2, 60) for _ in range(3)]
    assert statistics.has_drift(rising)
    assert statistics.has_drift([samples[::-1] for samples in rising])


def test_drift_from_one_invocation_to_the_next() -> None:
    flat = [np.full(30, 1.0 + 0.03 * index) for index in range(5)]
    assert statistics.has_drift(flat)
    assert not statistics.has_drift([flat[index] for index in (0, 3, 1, 4, 2)])


def test_noise_is_no_drift() -> None:
    rng = np.random.default_rng(5)
    found = 0
    for _ in range(500):
        samples = [np.exp(0.02 * rng.standard_normal(60)) for _ in range(5)]
        found += statistics.has_drift(samples)
    assert found <= 10


def test_opposite_changes_are_no_drift() -> None:
    rising = np.linspace(1.0, 1.3, 60)
    assert not statistics.has_drift([rising, rising[::-1], rising])


@pytest.mark.parametrize("times", [[1.0] * 12 + [9.0], [1, 1, 1, 1, 1.5]])
def test_value_interval_and_ratio_are_of_one_estimand(times: list[float]) -> None:
    """What lies above the others moves all three, and in step."""
    found, ones = interval(times), interval([1.0] * 5)
    assert found is not None
    assert ones is not None
    assert 0 < found.low < found.value < found.high
    assert found.value == pytest.approx(mean(times))
    ratio = statistics.ratio(times, [1.0] * 5)
    assert ratio is not None
    assert ratio.value == pytest.approx(ones.value / found.value)


def test_ratio_by_hand() -> None:
    found = statistics.ratio([1.0, 1.0, 1.0], [2.0, 2.0])
    assert found == Interval(pytest.approx(2.0), pytest.approx(2.0), pytest.approx(2.0))


def test_ratio_is_of_speeds() -> None:
    """Half the time is twice as fast."""
    fast, slow = [1.0, 1.01, 0.99, 1.0, 1.02], [2.0, 2.02, 1.98, 2.01, 1.99]
    found = statistics.ratio(fast, slow)
    assert found is not None
    assert found.value == pytest.approx(2.0, rel=0.01)


def test_ratio_needs_two_processes_on_each_side() -> None:
    assert statistics.ratio([1.0], [1.0, 1.0]) is None


def test_ratio_of_wildly_different_processes_is_unbounded_not_an_error() -> None:
    found = statistics.ratio([1e-300, 1e300], [1e300, 1e-300])
    assert found is not None
    assert found.high == math.inf


def test_ratio_survives_variances_that_vanish() -> None:
    found = statistics.ratio([1.0, 1.0 + 1e-15], [1.0, 1.0])
    assert found is not None
    assert (found.low, found.high) == (pytest.approx(1.0), pytest.approx(1.0))


@pytest.mark.parametrize("spreads", [(0.01, 0.01), (0.01, 0.05)])
def test_ratio_coverage(spreads: tuple[float, float]) -> None:
    """Welch's interval is nominal also where the sides differ in spread."""
    rng = np.random.default_rng(6)
    held = 0
    for _ in range(TRIALS):
        first = np.exp(spreads[0] * rng.standard_normal(5))
        second = 1.25 * np.exp(spreads[1] * rng.standard_normal(5))
        found = statistics.ratio(list(first), list(second))
        assert found is not None
        held += found.low <= 1.25 <= found.high
    assert held / TRIALS == pytest.approx(0.95, abs=0.025)


def test_median_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="no values"):
        statistics.median([])
