"""A cell's time and interval: by hand, against SciPy, and how often they hold the truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import t as student

from gemmgrid.records import statistics

TRIALS = 2000


@pytest.mark.parametrize("df", [*range(1, 40), 100, 1000])
def test_quantiles_of_student(df):
    assert statistics.t_975(df) == pytest.approx(student.ppf(0.975, df), rel=2e-6)


def test_interval_by_hand() -> None:
    medians = [math.exp(value) for value in (0.1, 0.2, 0.3)]
    found = statistics.interval(medians)
    assert found is not None
    half = 4.30265 * 0.1 / math.sqrt(3)
    assert found.value == pytest.approx(math.exp(0.2))
    assert found.low == pytest.approx(math.exp(0.2 - half), rel=1e-4)
    assert found.high == pytest.approx(math.exp(0.2 + half), rel=1e-4)


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


def test_few_and_equal_and_endless() -> None:
    assert statistics.interval([2.0]) is None
    assert statistics.relative_half_width([2.0]) is None
    assert statistics.relative_half_width([1.0, 1.0]) == 0.0
    assert statistics.interval([1e-300, 1e300]) is None
    assert statistics.interval([1.0, 1.4]) is not None
    assert statistics.interval([1.0, 1.5]) is None  # two values this far apart: a factor of 170


def test_the_width_is_of_the_rate() -> None:
    times = [1.0, 1.1, 1.3, 0.9, 1.05]
    rates = statistics.interval([1 / time for time in times])
    assert rates is not None
    width = (rates.high - rates.low) / 2 * statistics.mean(times)
    assert statistics.relative_half_width(times) == pytest.approx(width)


def test_an_interval_that_reaches_further_than_a_twentieth_is_wide() -> None:
    assert not statistics.is_wide(None)
    assert not statistics.is_wide(statistics.Interval(1.0, 0.9, 1.04))
    assert statistics.is_wide(statistics.Interval(1.0, 0.99, 1.06))
