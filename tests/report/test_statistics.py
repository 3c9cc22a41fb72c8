"""Intervals, shapes and ratios: by hand, and by simulation with seeds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gemmgrid.report import statistics
from gemmgrid.report.statistics import Interval

TRIALS = 2000


def test_interval_by_hand() -> None:
    medians = [math.exp(value) for value in (1.0, 2.0, 3.0)]
    found = statistics.interval(medians)
    assert found is not None
    half = 4.30265 * 1 / math.sqrt(3)
    assert found.value == pytest.approx(math.e**2)
    assert found.low == pytest.approx(math.exp(2 - half), rel=1e-4)
    assert found.high == pytest.approx(math.exp(2 + half), rel=1e-4)


def test_interval_of_the_rate_is_that_of_the_time_turned_round() -> None:
    times = [1.0, 1.1, 1.3, 0.9, 1.05]
    of_times = statistics.interval(times)
    of_rates = statistics.interval([1 / time for time in times])
    assert of_times is not None
    assert of_rates is not None
    assert of_rates.low == pytest.approx(1 / of_times.high)
    assert of_rates.high == pytest.approx(1 / of_times.low)


def test_one_process_has_no_interval() -> None:
    assert statistics.interval([1.0]) is None
    assert statistics.interval([]) is None


@pytest.mark.parametrize("times", [[1.0] * 12 + [1e6], [1, 1, 1, 1, 1.5]])
def test_value_interval_and_ratio_are_of_one_estimand(times: list[float]) -> None:
    """What lies above the others moves all three, and in step."""
    found, ones = statistics.interval(times), statistics.interval([1.0] * 5)
    assert found is not None
    assert ones is not None
    assert 0 < found.low < found.value < found.high
    assert found.value == pytest.approx(statistics.mean(times))
    ratio = statistics.ratio(times, [1.0] * 5)
    assert ratio is not None
    assert ratio.value == pytest.approx(ones.value / found.value)


def test_processes_of_a_round_are_averaged_first() -> None:
    medians, rounds = [1.0, 4.0, 9.0, 9.0], [1, 1, 2, 2]
    assert statistics.by_round(medians, rounds) == pytest.approx([2.0, 9.0])
    assert statistics.by_round(medians, [1, 1, 1, 1]) == medians


def test_coverage_is_nominal_for_rounds_with_moods_of_their_own() -> None:
    """Two rounds of five processes with 3 % between rounds: two values, one degree of freedom."""
    rng = np.random.default_rng(7)
    held = as_processes = 0
    for _ in range(TRIALS):
        moods = np.repeat(0.03 * rng.standard_normal(2), 5)
        medians = list(np.exp(moods + 0.005 * rng.standard_normal(10)))
        found = statistics.interval(statistics.by_round(medians, [1] * 5 + [2] * 5))
        naive = statistics.interval(medians)
        assert found is not None
        assert naive is not None
        held += found.low <= 1.0 <= found.high
        as_processes += naive.low <= 1.0 <= naive.high
    assert held / TRIALS == pytest.approx(0.95, abs=0.02)
    assert as_processes / TRIALS < 0.6


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


@pytest.mark.parametrize("count", [3, 5, 10])
def test_coverage_is_nominal_for_independent_processes(count: int) -> None:
    rng = np.random.default_rng(1)
    logs = 0.03 * rng.standard_normal((TRIALS, count))
    held = 0
    for row in np.exp(logs):
        found = statistics.interval(list(row))
        assert found is not None
        held += found.low <= 1.0 <= found.high
    # 2000 trials of probability 0.95: standard deviation 0.5 %; four of them.
    assert held / TRIALS == pytest.approx(0.95, abs=0.02)


def test_coverage_falls_when_processes_share_a_mood() -> None:
    """What one round does: processes close in time are correlated, the interval too narrow."""
    rng = np.random.default_rng(2)
    held = 0
    for _ in range(TRIALS):
        mood = 0.02 * rng.standard_normal()
        medians = np.exp(mood + 0.02 * rng.standard_normal(5))
        found = statistics.interval(list(medians))
        assert found is not None
        held += found.low <= 1.0 <= found.high
    assert held / TRIALS < 0.85


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
