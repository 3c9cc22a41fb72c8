"""The interval that the terminal shows is the report's."""

from __future__ import annotations

import math
import random

import pytest
from scipy.stats import t as student

from gemmgrid.records import statistics
from gemmgrid.report.judge import statistics as judged


@pytest.mark.parametrize("df", [*range(1, 40), 100, 1000])
def test_quantiles_of_student(df):
    assert statistics.t_975(df) == pytest.approx(student.ppf(0.975, df), rel=2e-6)


@pytest.mark.parametrize("count", [2, 3, 5, 8, 13, 20, 60])
def test_the_same_figures_as_the_report(count):
    chance = random.Random(count)
    times = [0.002 * math.exp(chance.gauss(0, 0.05)) for _ in range(count)]
    times[0] *= 1.5  # an outlier: the limits are widened to hold the median
    value, low, high = statistics.interval(times)
    theirs = judged.interval(times)
    assert (value, low, high) == pytest.approx((theirs.value, theirs.low, theirs.high), rel=3e-6)
    rates = judged.interval([1 / time for time in times])
    width = (rates.high - rates.low) / 2 * value
    assert statistics.relative_half_width(times) == pytest.approx(width, rel=1e-4)


def test_the_median_is_held_where_outliers_draw_the_mean_away():
    times = [1.0] * 9 + [1000.0]
    value, low, high = statistics.interval(times)
    assert low <= value <= high
    assert judged.interval(times).low == pytest.approx(low)


def test_few_and_equal_and_endless():
    assert statistics.interval([2.0]) is None
    assert statistics.relative_half_width([2.0]) is None
    assert statistics.relative_half_width([1.0, 1.0]) == 0.0
    assert statistics.interval([1e-300, 1e300])[2] == math.inf
