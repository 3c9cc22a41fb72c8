"""A cell that was measured several times: which runs enter its interval, and where it shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gemmgrid.records.cell import PROTOCOL
from gemmgrid.report.judge.compare import before_and_after
from gemmgrid.report.judge.compare_command import pairs
from gemmgrid.report.read.collect import collect
from tests.report import synthetic

CELL = synthetic.gemm(128)


def measured(results: Path, gflops: float, day: int, rounds: int = 5, **fields: Any) -> None:
    moment = f"2026-11-{day:02}T12:00:04.000000Z"
    protocol = {"cell": CELL.to_json() | {"protocol": fields.pop("protocol", PROTOCOL)}}
    document = synthetic.run(
        CELL, gflops=gflops, rounds=rounds, seed=1, hour=day, ended_at=moment, **fields
    )
    synthetic.write_run(results, document | protocol)


def width(results: Path) -> float:
    (row,) = collect(results).cells
    return float(row["gflops_high"] / row["gflops_low"])


def test_runs_of_one_context_widen_the_interval(tmp_path: Path) -> None:
    measured(tmp_path, 100, 1)
    alone = width(tmp_path)
    for day, gflops in ((2, 90), (3, 110)):
        measured(tmp_path, gflops, day)
    assert width(tmp_path) > 1.2 * alone
    (row,) = collect(tmp_path).cells
    assert row["interval_runs"] == 3
    assert row["gflops"] == pytest.approx(110, rel=0.02)
    assert row["gflops_low"] < row["gflops"] < row["gflops_high"]
    assert "noisy" in row.flags


@pytest.mark.parametrize(
    "other",
    [
        {"context": {"host": {"kernel": "6.1"}, "device": None, "backend": {}}},
        {"flags": ["wrong-threads"]},
        {"rounds": 1},
        {"status": "crashed"},
        {"protocol": 99},
    ],
)
def test_other_runs_are_no_repetitions(tmp_path: Path, other: dict[str, Any]) -> None:
    context = {"host": {"kernel": "6.18"}, "device": None, "backend": {}}
    measured(tmp_path, 100, 2, context=context)
    alone = width(tmp_path)
    results = tmp_path / "two"
    measured(results, 50, 1, **({"context": context} | other))
    measured(results, 100, 2, context=context)
    assert width(results) == pytest.approx(alone)
    assert collect(results).cells[0]["interval_runs"] == 1


def test_before_and_after_know_the_spread_of_either_side(tmp_path: Path) -> None:
    old, new = ({"host": {"kernel": kernel}, "device": None} for kernel in ("6.1", "6.18"))
    for day, (gflops, context) in enumerate([(95, old), (105, old), (100, old), (120, new)], 1):
        measured(tmp_path, gflops, day, context=context)
    (pair,) = before_and_after(collect(tmp_path).runs)
    (one,) = pair.comparisons
    assert (one.first["interval_runs"], one.second["interval_runs"]) == (1, 3)
    assert one.contrast is not None
    assert one.contrast.between > 0
    assert one.verdict == "cannot tell"
    assert one.needed is None  # more rounds do not bring the runs together


def test_a_day_on_which_the_cell_failed_has_no_rate(tmp_path: Path) -> None:
    measured(tmp_path, 100, 1)
    measured(tmp_path, 100, 2, status="crashed")
    measured(tmp_path, 100, 3)
    collection = collect(tmp_path)
    (first,) = pairs(collection, "now", "2026-11-01")
    assert len(first.comparisons) == 1
    (second,) = pairs(collection, "now", "2026-11-02")
    assert (len(second.comparisons), second.only_first) == (0, 1)
