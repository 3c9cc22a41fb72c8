"""Two groups and drifts are found, and not where there is one cloud and noise."""

from __future__ import annotations

import numpy as np
import pytest

from gemmgrid.records import sample_shape

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
    found = sum(sample_shape.is_bimodal(SHAPES[shape](rng)) for _ in range(300))
    assert found <= 3


@pytest.mark.parametrize("share", [0.25, 0.5, 0.75])
def test_two_clouds_are_bimodal(share: float) -> None:
    rng = np.random.default_rng(4)
    for _ in range(100):
        high = rng.random(200) < share
        samples = np.where(high, 1.3, 1.0) * np.exp(0.02 * rng.standard_normal(200))
        assert sample_shape.is_bimodal(samples)


def test_two_groups_too_close_to_matter_are_none() -> None:
    samples = [1.0] * 50 + [1.01] * 50
    assert not sample_shape.is_bimodal(samples)


def test_few_samples_show_no_groups() -> None:
    assert not sample_shape.is_bimodal([1.0] * 9 + [2.0] * 9)


def test_drift_within_every_process() -> None:
    rising = [np.linspace(1.0, 1.2, 60) for _ in range(3)]
    assert sample_shape.has_drift(rising)
    assert sample_shape.has_drift([samples[::-1] for samples in rising])


def test_drift_from_one_process_to_the_next() -> None:
    flat = [np.full(30, 1.0 + 0.03 * index) for index in range(5)]
    assert sample_shape.has_drift(flat)
    assert not sample_shape.has_drift([flat[index] for index in (0, 3, 1, 4, 2)])


def test_noise_is_no_drift() -> None:
    rng = np.random.default_rng(5)
    found = 0
    for _ in range(500):
        samples = [np.exp(0.02 * rng.standard_normal(60)) for _ in range(5)]
        found += sample_shape.has_drift(samples)
    assert found <= 10


def test_opposite_changes_are_no_drift() -> None:
    rising = np.linspace(1.0, 1.3, 60)
    assert not sample_shape.has_drift([rising, rising[::-1], rising])
