"""What stands beside a rate: figures by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gemmgrid.records.cell import Cell
from gemmgrid.report.read.rows import from_run
from gemmgrid.report.read.scan import CellFile
from tests.report import synthetic

CELL = synthetic.gemm(100, threads=2)
BORDERS = [
    {"name": "near", "from_ns": 80.0, "to_ns": 138.0, "count": 9},
    {"name": "far", "from_ns": 371.0, "to_ns": 427.0, "count": 9},
]
MACHINE = {"cpu": {"caches": [{"level": 3, "size_bytes": 8 << 20, "count": 1}]}}


def probe(trip: float, flops: float = 8e9, memory: float | None = None) -> dict[str, Any]:
    half = {
        "trips": [{"cpus": [0, 1], "ns": [trip]}],
        "float32": {"all": [flops, flops / 2], "slowest": [flops / 4]},
        "float64": {"all": [flops / 2], "slowest": [flops / 8]},
    }
    moved = memory and {"bytes": 1 << 20, "triad": [memory / 2], "read": [memory]}
    return {"before": half, "after": half, "memory": moved, "unknown": {}}


def run(times: list[float], trips: list[float], cell: Cell = CELL, **more: Any) -> dict[str, Any]:
    """A run of processes with one sample and one trip each; far ones are set aside."""
    document = synthetic.run(cell, invocations=len(times), samples=1, states=BORDERS)
    for one, seconds, trip in zip(document["invocations"], times, trips, strict=True):
        one |= {"inner": 10, "samples": {"elapsed_ns": [round(seconds * 1e10)]}}
        one["probe"] = probe(trip, **more)
        if trip > 200:
            one["aside"] = "far"
    return document


def row_of(document: dict[str, Any], cell: Cell = CELL) -> Any:
    path = Path("results/machine-a/numpy-openblas") / f"{cell.name}.jsonl"
    return from_run(document, CellFile("machine-a", "numpy-openblas", cell, path), MACHINE)


def test_the_best_process_and_the_state() -> None:
    row = row_of(run([1e-3, 2e-3, 3e-3], [90, 100, 110]))
    assert row["best_gflops"] == pytest.approx(2.0)
    assert (row["state"], row["far"]) == ("near", None)


def test_another_state_has_its_time_from_three_processes_on() -> None:
    three = run([1e-3, 1e-3, 2e-3, 2e-3, 2e-3], [90, 90, 400, 400, 400])
    assert row_of(three)["far"] == "far: 2.00 × the time"
    two = run([1e-3, 1e-3, 1e-3, 2e-3, 2e-3], [90, 90, 90, 400, 400])
    assert row_of(two)["far"] is None


def test_the_measured_arithmetic_is_a_products_ceiling() -> None:
    row = row_of(run([1e-3, 1e-3], [90, 90], memory=1e9))
    assert row["arithmetic_gflops"] == pytest.approx(8.0)
    assert row["memory_gbytes_s"] == pytest.approx(1.0)
    assert (row["ceiling"], row["ceiling_share"]) == ("arithmetic", pytest.approx(0.25))


def test_the_measured_memory_is_the_ceiling_of_what_no_cache_holds() -> None:
    cell = Cell("gemv", "float32", (4096, 4096), 2)
    row = row_of(run([0.1, 0.1], [90, 90], cell, memory=1e9), cell)
    assert row["ceiling"] == "memory"
    fetched = cell.operand_bytes - (8 << 20)
    assert row["ceiling_share"] == pytest.approx(fetched / 1e9 / 0.1)


def test_a_vector_product_in_cache_has_no_ceiling() -> None:
    cell = Cell("dot", "float32", (1000,), 2)
    row = row_of(run([1e-6, 1e-6], [90, 90], cell, memory=1e9), cell)
    assert (row["ceiling"], row["ceiling_share"]) == (None, None)


def test_operations_a_cycle_are_of_one_thread_at_the_clock_of_a_busy_cpu() -> None:
    document = run([1e-3, 1e-3], [90, 90])
    for one in document["invocations"]:
        one["conditions"] = {
            "before": {"cpu_mhz": [800.0, 900.0]},
            "after": {"cpu_mhz": [1000.0, 800.0]},
        }
    assert row_of(document)["flop_per_cycle"] == pytest.approx(2e9 / 1e9 / 2)
    for one in document["invocations"]:
        one["counters"] = {"cycles": 500_000_000, "task_clock_s": 1.0, "migrations": 3}
    assert row_of(document)["flop_per_cycle"] == pytest.approx(2e9 / 5e8 / 2)
    assert row_of(document)["migrations"] == 3
    assert row_of(run([1e-3, 1e-3], [90, 90]))["flop_per_cycle"] is None


def test_operations_a_cycle_of_a_gpu_are_of_all_of_it() -> None:
    document = run([1e-3, 1e-3], [90, 90]) | {"device": "cuda"}
    for one in document["invocations"]:
        one["conditions"] = {"before": None, "after": None, "during": [{"sm_mhz": 1000.0}]}
    assert row_of(document)["flop_per_cycle"] == pytest.approx(2.0)


def test_a_run_that_was_not_probed_has_none_of_it() -> None:
    row = row_of(synthetic.run(CELL))
    columns = ("state", "far", "ceiling", "ceiling_share", "arithmetic_gflops", "flop_per_cycle")
    assert all(row[column] is None for column in columns)
