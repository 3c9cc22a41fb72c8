"""Sides that were measured in the same rounds are compared within them, and only those."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gemmgrid.report.judge import compare
from gemmgrid.report.judge.compare import Comparison, backend_pairs, machine_pairs
from gemmgrid.report.judge.compare_command import NoSuchSideError, pairs
from gemmgrid.report.read.collect import collect
from gemmgrid.report.statistics import paired
from tests.report import synthetic

FIRST, SECOND = "numpy-openblas", "torch-cpu"


def compared(results: Path, first: dict[str, Any], second: dict[str, Any]) -> Comparison:
    """Two backends' runs of one cell, with 20 % between rounds that both share."""
    rng = np.random.default_rng(1)
    moods = np.exp(0.2 * rng.standard_normal(5))
    for backend, fields in ((FIRST, first), (SECOND, second)):
        document = synthetic.run(synthetic.gemm(128), backend=backend, rounds=5, **fields)
        for one in document["invocations"]:
            mood = moods[one["round"] - 1]
            elapsed = one["samples"]["elapsed_ns"]
            one["samples"]["elapsed_ns"] = [round(value * mood) for value in elapsed]
        synthetic.write_run(results, document)
    (pair,) = backend_pairs(collect(results).cells)
    (one,) = pair.comparisons
    return one


def test_the_mood_of_a_round_is_in_no_paired_ratio(tmp_path: Path) -> None:
    one = compared(tmp_path, {"gflops": 110}, {"gflops": 100})
    assert one.pairing == "paired"
    assert one.interval is not None
    assert one.interval.low > 1.05
    assert one.interval.high < 1.15
    assert one.verdict == "faster"


def test_rounds_of_two_hours_are_unpaired(tmp_path: Path) -> None:
    one = compared(tmp_path, {"gflops": 110}, {"gflops": 100, "hour": 13})
    assert one.pairing == "unpaired"
    assert one.verdict == "cannot tell"


def test_rounds_in_a_row_are_unpaired(tmp_path: Path) -> None:
    """The second cell's rounds all began within the first one's first round."""
    other = synthetic.run(synthetic.gemm(128), backend=SECOND, rounds=5)
    for one in other["invocations"]:
        one["started_at"] = f"2026-11-30T12:00:{10 + one['index']}.000000Z"
    synthetic.write_run(tmp_path, other)
    synthetic.write_run(tmp_path, synthetic.run(synthetic.gemm(128), rounds=5))
    (pair,) = backend_pairs(collect(tmp_path).cells)
    assert pair.comparisons[0].pairing == "unpaired"


def test_machines_and_single_rounds_are_unpaired(tmp_path: Path) -> None:
    for machine in ("one", "two"):
        for backend, rounds in ((FIRST, 5), (SECOND, 1)):
            document = synthetic.run(synthetic.gemm(64), machine, backend, rounds=rounds)
            synthetic.write_run(tmp_path, document)
    cells = collect(tmp_path).cells
    found = [*machine_pairs(cells), *backend_pairs(cells)]
    assert {one.pairing for pair in found for one in pair.comparisons} == {"unpaired"}


def test_only_rounds_that_both_have_are_compared(tmp_path: Path) -> None:
    document = synthetic.run(synthetic.gemm(128), backend=SECOND, rounds=6, invocations=6)
    document["invocations"] = [one for one in document["invocations"] if one["round"] != 2]
    synthetic.write_run(tmp_path, document)
    synthetic.write_run(
        tmp_path, synthetic.run(synthetic.gemm(128), rounds=6, invocations=6, spread=0.1)
    )
    (pair,) = backend_pairs(collect(tmp_path).cells)
    (one,) = pair.comparisons
    assert (one.pairing, one.rounds) == ("paired", 5)
    assert one.contrast is not None
    assert one.contrast.df == 4
    assert one.interval is not None
    assert one.ratio == pytest.approx(one.interval.value)


@pytest.mark.parametrize("mood", [0.0, 0.1])
def test_coverage_of_the_paired_interval(mood: float) -> None:
    """Nominal, however much the rounds' moods move both sides."""
    rng = np.random.default_rng(5)
    held = 0
    trials = 2000
    for _ in range(trials):
        shared = mood * rng.standard_normal(5)
        first, second = np.exp(shared + 0.02 * rng.standard_normal((2, 5)))
        found = paired(dict(enumerate(first / 1.1)), dict(enumerate(second)))
        assert found is not None
        limits = found.interval()
        held += limits.low <= 1.1 <= limits.high
    assert held / trials == pytest.approx(0.95, abs=0.02)


def test_a_cell_that_never_met_the_best_state_gives_no_verdict(tmp_path: Path) -> None:
    one = compared(tmp_path, {"gflops": 200}, {"gflops": 100, "flags": ["other-state"]})
    assert (one.verdict, one.needed, one.tested) == ("other state", None, False)
    assert "measure again" in one.advice
    assert one.verdict in compare.verdicts.VERDICTS


def test_two_cells_of_the_same_other_state_are_compared(tmp_path: Path) -> None:
    flagged = {"flags": ["other-state"]}
    assert compared(tmp_path, {"gflops": 200} | flagged, flagged).verdict == "faster"


@pytest.mark.parametrize(
    ("first", "second", "count"),
    [
        ("threads=2", "threads=1", 4),
        ("dtype=float32", "dtype=float64", 4),
        ("options=alloc", "options=default", 4),
    ],
)
def test_axes_of_one_machine_are_compared_in_pairs(
    tmp_path: Path, first: str, second: str, count: int
) -> None:
    for dtype, gflops in (("float32", 100.0), ("float64", 50.0)):
        for threads in (1, 2):
            for alloc in (False, True):
                cell = synthetic.gemm(64, dtype, threads, alloc=alloc)
                rate = gflops * threads * (1.0 if alloc else 0.5)
                synthetic.write_run(tmp_path, synthetic.run(cell, rounds=5, gflops=rate))
    (pair,) = pairs(collect(tmp_path), first, second)
    assert len(pair.comparisons) == count
    assert {(one.pairing, one.verdict) for one in pair.comparisons} == {("paired", "faster")}
    assert all(one.ratio == pytest.approx(2.0, rel=0.05) for one in pair.comparisons)


def test_an_axis_that_no_cell_has_is_refused(tmp_path: Path) -> None:
    synthetic.write_run(tmp_path, synthetic.run(synthetic.gemm(64)))
    with pytest.raises(NoSuchSideError, match=r"no cell has threads=3. Found: 1"):
        pairs(collect(tmp_path), "threads=3", "threads=1")
    with pytest.raises(NoSuchSideError, match="one names a threads, the other a dtype"):
        pairs(collect(tmp_path), "threads=1", "dtype=float32")
