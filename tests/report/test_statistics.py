"""Intervals, shapes and ratios: by hand, and by simulation with seeds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gemmgrid.records.statistics import interval, mean, of_logs
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


def test_spread_is_the_quartiles() -> None:
    assert statistics.spread(list(range(101))) == (25.0, 75.0)
    assert statistics.spread([]) is None


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


def _spread(seed: int, runs: int, between: float) -> tuple[float, float]:
    """How often five rounds' interval holds the long-run value, alone and over runs of the cell.

    between: the standard deviation between runs, in standard errors of one run.
    """
    rng = np.random.default_rng(seed)
    alone = over = 0
    for _ in range(TRIALS):
        shifts = between * 0.01 / math.sqrt(5) * rng.standard_normal((runs, 1))
        times = np.exp(shifts + 0.01 * rng.standard_normal((runs, 5)))
        found = [statistics.Estimate(*of_logs(list(one)), 4.0) for one in times]
        wider = statistics.over_runs(found[0], found[1:])
        assert wider.half >= found[0].half
        alone += abs(found[0].centre) <= found[0].half
        over += abs(found[0].centre) <= wider.half
    return alone / TRIALS, over / TRIALS


@pytest.mark.parametrize(
    ("runs", "between"), [(2, 0.0), (2, 1.0), (2, 2.0), (3, 2.0), (3, 4.0), (5, 4.0), (10, 4.0)]
)
def test_the_spread_between_runs_enters_the_interval(runs: int, between: float) -> None:
    """At least 93 %, where the interval of one run alone holds down to 46 %."""
    alone, over = _spread(8, runs, between)
    assert over >= 0.93
    assert between < 2 or alone < 0.75


def test_two_runs_that_are_far_apart_tell_little() -> None:
    """What docs/method.md names: with four standard errors between two runs, 90 %."""
    assert _spread(8, 2, 4.0)[1] == pytest.approx(0.90, abs=0.02)


def test_runs_that_agree_leave_the_interval_as_it_is() -> None:
    one = statistics.Estimate(1.0, 1e-4, 4.0)
    assert statistics.over_runs(one, [statistics.Estimate(1.001, 1e-4, 4.0)]) == one
    assert statistics.over_runs(one, []) == one


def test_between_runs_by_hand() -> None:
    runs = [statistics.Estimate(centre, 1e-4, 4.0) for centre in (0.0, 0.1)]
    wider = statistics.over_runs(*runs[:1], runs[1:])
    assert wider.between == pytest.approx(0.005 - 1e-4)
    assert wider.error == pytest.approx(0.005)
    assert wider.df == pytest.approx(0.005**2 / (1e-8 / 4 + 0.0049**2), abs=1e-3)
