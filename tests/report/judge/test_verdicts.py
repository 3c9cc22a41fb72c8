"""Verdicts: seldom wrong where nothing changed, and found at the rates that the docs promise.

Simulated runs: each run has a shift of its own (the minutes it ran in), each round another one.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from gemmgrid.report.judge import verdicts
from gemmgrid.report.statistics import Estimate, estimate, unpaired

CELLS = 400
DOCS = Path(__file__).resolve().parents[3] / "docs/changes.md"


def contrast(first: list[float], second: list[float]) -> Estimate | None:
    return unpaired(estimate(first), estimate(second))


def simulate(
    change: float, round_spread: float, run: float, seed: int, cells: int = CELLS, rounds: int = 5
) -> list[str]:
    """Verdicts of many cells at once, the first side faster by `change`."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(cells):
        shifts = run * rng.standard_normal(2)
        medians = np.exp(shifts[:, None] + round_spread * rng.standard_normal((2, rounds)))
        found.append(contrast(list(medians[0] / (1 + change)), list(medians[1])))
    tested = [one for one in found if one]
    shares = verdicts.adjusted([verdicts.p_value(one) for one in tested])
    return [verdicts.verdict(one, rounds, share) for one, share in zip(found, shares, strict=True)]


@pytest.mark.parametrize(
    ("round_spread", "run", "rounds"),
    [(0.005, 0.0, 5), (0.01, 0.01, 5), (0.02, 0.01, 5), (0.05, 0.0, 5), (0.01, 0.01, 3)],
)
def test_nothing_changed_and_nothing_is_found(round_spread: float, run: float, rounds: int) -> None:
    """An A/A test: in at least 95 % of cells the verdict is `same` or `cannot tell`."""
    for seed in range(3):
        found = simulate(0.0, round_spread, run, seed, rounds=rounds)
        assert sum(word in ("same", "cannot tell") for word in found) >= 0.95 * len(found)


def promised() -> list[tuple[int, float, float, float]]:
    """The docs' table: rounds, spread between them, planted change, share found."""
    number = r"([\d.]+)"
    row = rf"^\| {number} \| {number} % \| {number} % \| {number} % \| {number} % \|$"
    rows = re.findall(row, DOCS.read_text(encoding="utf-8"), re.M)
    assert len(rows) >= 6
    return [
        (int(rounds), float(spread) / 100, change, float(share) / 100)
        for rounds, spread, *shares in rows
        for change, share in zip((0.05, 0.10, 0.50), shares, strict=True)
    ]


@pytest.mark.parametrize(("rounds", "spread", "change", "share"), promised())
def test_planted_changes_are_found_as_promised(
    rounds: int, spread: float, change: float, share: float
) -> None:
    """A fifth of the cells changed, the rest did not: found at the promised rate, few false."""
    right = wrong = planted = 0
    for seed in range(4):
        rng_seed = 1000 + seed
        both = _mixed(change, spread, rng_seed, rounds)
        for changed, word in both:
            planted += changed
            right += changed and word == "faster"
            wrong += word == "slower" or (not changed and word == "faster")
    assert right / planted >= share
    assert wrong <= 0.05 * max(20, right + wrong)


def _mixed(
    change: float, spread: float, seed: int, rounds: int, cells: int = 300
) -> list[tuple[bool, str]]:
    rng = np.random.default_rng(seed)
    found: list[Estimate] = []
    changed = []
    for index in range(cells):
        hit = index % 5 == 0
        medians = np.exp(spread * rng.standard_normal((2, rounds)))
        one = contrast(list(medians[0] / (1 + change if hit else 1.0)), list(medians[1]))
        assert one is not None
        found.append(one)
        changed.append(hit)
    shares = verdicts.adjusted([verdicts.p_value(one) for one in found])
    return [
        (hit, verdicts.verdict(one, rounds, share))
        for hit, one, share in zip(changed, found, shares, strict=True)
    ]


def test_direction() -> None:
    assert set(simulate(0.5, 0.01, 0.0, 1, 20)) == {"faster"}
    assert set(simulate(-0.4, 0.01, 0.0, 1, 20)) == {"slower"}
    assert simulate(0.0, 0.003, 0.0, 1, 20).count("same") >= 18


def test_a_sure_but_small_difference_is_no_discovery() -> None:
    assert set(simulate(0.02, 0.0005, 0.0, 1, 20)) == {"same"}


def test_too_few_rounds_give_no_verdict() -> None:
    found = contrast([1.0, 1.0], [2.0, 2.0, 2.0, 2.0, 2.0])
    assert verdicts.verdict(found, 2, 0.0) == "insufficient"
    assert verdicts.verdict(found, 3, 0.0) == "faster"
    assert verdicts.rounds_needed(found, 2) == 5
    assert verdicts.rounds_needed(None, 1) == 5


@pytest.mark.parametrize("level", [0.05, 0.05 / 100])
def test_more_rounds_as_advised_decide(level: float) -> None:
    """An undecided cell, measured in as many rounds as advised, is mostly decided then, also where
    it is one of a hundred cells of which nothing else has changed."""
    decided = 0
    trials = 40
    for seed in range(trials):
        rng = np.random.default_rng(seed)
        first, second = (list(np.exp(0.03 * rng.standard_normal(5))) for _ in range(2))
        found = contrast([one / 1.12 for one in first], second)
        assert found is not None
        many = verdicts.rounds_needed(found, 5, level) or verdicts.MOST_ROUNDS
        first, second = (list(np.exp(0.03 * rng.standard_normal(many))) for _ in range(2))
        after = contrast([one / 1.12 for one in first], second)
        assert after is not None
        decided += verdicts.p_value(after) <= level
    assert decided >= 0.6 * trials


def test_the_level_of_one_more_discovery() -> None:
    assert verdicts.level([]) == pytest.approx(0.05)
    assert verdicts.level([1.0] * 100) == pytest.approx(0.05 / 100)
    assert verdicts.level([0.001] * 9 + [1.0] * 91) == pytest.approx(0.05 * 10 / 100)
    assert verdicts.level([0.001] * 10) == pytest.approx(0.05)


def test_benjamini_hochberg_by_hand() -> None:
    # Their own example's first values, m = 15: 0.0001, 0.0004, 0.0019, 0.0095, 0.0201 …
    p = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344]
    p += [0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0]
    shares = verdicts.adjusted(p)
    assert [share <= 0.05 for share in shares] == [True] * 4 + [False] * 11
    assert verdicts.adjusted(list(reversed(p))) == list(reversed(shares))
    assert verdicts.adjusted([]) == []


def test_p_values_are_uniform_at_the_margin() -> None:
    """Where the true ratio is just the margin, p is as often below any level as the level says."""
    rng = np.random.default_rng(3)
    below = 0
    trials = 4000
    for _ in range(trials):
        medians = np.exp(0.01 * rng.standard_normal((2, 5)))
        found = contrast(list(medians[0] / (1 + verdicts.MARGIN)), list(medians[1]))
        assert found is not None
        below += verdicts.p_value(found) <= 0.1
    assert below / trials == pytest.approx(0.1, abs=0.015)


def test_together_is_the_geometric_mean() -> None:
    parts = [Estimate(np.log(2.0), 0.01, 8.0), Estimate(np.log(0.5), 0.03, 8.0)]
    whole = verdicts.together(parts)
    assert whole is not None
    assert whole.interval().value == pytest.approx(1.0)
    assert whole.error == pytest.approx(0.01)
    assert verdicts.together([]) is None
