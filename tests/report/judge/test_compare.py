"""Machine against machine: only shared cells, in the right direction."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmgrid.report.judge.compare import machine_pairs
from gemmgrid.report.read.collect import collect
from tests.report import synthetic


def write(results: Path, machine: str, n: int, gflops: float, **fields: object) -> None:
    document = synthetic.run(synthetic.gemm(n), machine, gflops=gflops, seed=n, **fields)  # type: ignore[arg-type]
    synthetic.write_run(results, document)


def test_only_what_both_measured_is_compared(tmp_path: Path) -> None:
    for n in (64, 128, 256):
        write(tmp_path, "fast", n, 200)
    for n in (128, 256, 512, 1024):
        write(tmp_path, "slow", n, 100)
    write(tmp_path, "slow", 64, 100, status="crashed")
    (pair,) = machine_pairs(collect(tmp_path).cells)
    assert (pair.first, pair.second) == ("fast", "slow")
    assert [one.first["n"] for one in pair.comparisons] == [128, 256]
    assert (pair.only_first, pair.only_second) == (1, 2)


def test_direction_and_value(tmp_path: Path) -> None:
    write(tmp_path, "fast", 128, 200, rounds=5)
    write(tmp_path, "slow", 128, 100, rounds=5)
    (pair,) = machine_pairs(collect(tmp_path).cells)
    (one,) = pair.comparisons
    assert one.ratio == pytest.approx(2.0, rel=0.05)
    assert one.interval is not None
    assert one.interval.value == pytest.approx(one.ratio)
    assert one.verdict == "faster"
    assert pair.counts == {"faster": 1}


def test_another_backend_is_another_cell(tmp_path: Path) -> None:
    cell = synthetic.gemm(128)
    synthetic.write_run(tmp_path, synthetic.run(cell, "one", "numpy-openblas"))
    synthetic.write_run(tmp_path, synthetic.run(cell, "two", "torch-cpu"))
    assert machine_pairs(collect(tmp_path).cells) == []


def test_a_single_process_cannot_tell(tmp_path: Path) -> None:
    write(tmp_path, "one", 128, 200, invocations=1)
    write(tmp_path, "two", 128, 100)
    (pair,) = machine_pairs(collect(tmp_path).cells)
    assert pair.comparisons[0].interval is None
    assert pair.comparisons[0].ratio == pytest.approx(2.0, rel=0.05)
    assert pair.comparisons[0].verdict == "insufficient"
    assert pair.comparisons[0].needed == 5


def test_equal_rates_have_the_ratio_one(tmp_path: Path) -> None:
    """One process that is half as fast again moves the rate and the ratio alike."""
    write(tmp_path, "one", 128, 100, rounds=5, spread=0.2)
    write(tmp_path, "two", 128, 100, rounds=5, spread=0.001)
    (pair,) = machine_pairs(collect(tmp_path).cells)
    (one,) = pair.comparisons
    assert one.ratio == pytest.approx(one.first["gflops"] / one.second["gflops"], rel=1e-12)
    assert one.interval is not None
    assert one.interval.value == pytest.approx(one.ratio, rel=1e-12)


def test_every_pair_of_machines_most_shared_first(tmp_path: Path) -> None:
    for machine, sizes in {"a": (64,), "b": (64, 128), "c": (64, 128), "d": (32,)}.items():
        for n in sizes:
            write(tmp_path, machine, n, 100)
    pairs = machine_pairs(collect(tmp_path).cells)
    assert [(p.first, p.second) for p in pairs] == [("b", "c"), ("a", "b"), ("a", "c")]
