"""One run → one row: the figures by hand, and only what may be published."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gemmgrid.records.cell import Cell, Options
from gemmgrid.records.run import STATUSES
from gemmgrid.report.read.collect import collect
from gemmgrid.report.read.rows import RATES, Row, UnusableRunError, from_run
from gemmgrid.report.read.scan import CellFile
from tests.report import synthetic

CELL = synthetic.gemm(100)


def row_of(document: dict[str, Any], cell: Cell = CELL, **context: Any) -> Row:
    path = Path("results") / "machine-a" / document["backend"] / f"{cell.name}.jsonl"
    return from_run(document, CellFile("machine-a", document["backend"], cell, path), **context)


def with_times(seconds: list[list[float]], cell: Cell = CELL, inner: int = 10) -> dict[str, Any]:
    """A run whose invocations have exactly these seconds per call."""
    document = synthetic.run(cell, invocations=len(seconds), samples=1)
    for invocation, times in zip(document["invocations"], seconds, strict=True):
        invocation["inner"] = inner
        invocation["samples"] = {"elapsed_ns": [round(time * inner * 1e9) for time in times]}
    return document


def test_figures_by_hand() -> None:
    row = row_of(with_times([[1e-3, 2e-3, 3e-3], [4e-3], [1e-3]]))
    # 2·100³ operations; medians of invocations 2, 4 and 1 ms, their median 2 ms.
    assert row["time_s"] == pytest.approx(2e-3)
    assert row["gflops"] == pytest.approx(2e6 / 2e-3 / 1e9)
    assert row["gflops_low"] < row["gflops"] < row["gflops_high"]
    assert (row["invocations"], row["samples"]) == (3, 5)
    assert row["interval_kind"] == "one-round"
    assert row["retry"] is None


def test_a_process_that_is_set_aside_enters_no_figure() -> None:
    document = with_times([[1e-3], [9e-3], [1e-3]])
    document["invocations"][1]["aside"] = "far"
    row = row_of(document)
    assert row.times_s == pytest.approx([1e-3] * 2)
    assert row["invocations"] == 2


@pytest.mark.parametrize(
    ("cell", "flops"),
    [
        (Cell("gemm", "float32", (10, 20, 30), 1), 2 * 10 * 20 * 30),
        (Cell("gemm", "complex64", (10, 20, 30), 1), 8 * 10 * 20 * 30),
        (Cell("gemm", "float32", (10, 20, 30), 1, Options(batch=4)), 8 * 10 * 20 * 30),
        (Cell("gemv", "float64", (10, 20), 1), 2 * 10 * 20),
        (Cell("dot", "float64", (50,), 1), 2 * 50),
    ],
)
def test_rates_count_the_mathematical_operations(cell: Cell, flops: int) -> None:
    row = row_of(with_times([[1e-3], [1e-3]], cell), cell)
    assert row["gflops"] == pytest.approx(flops / 1e-3 / 1e9)
    assert (row["m"], row["n"], row["k"]) == (cell.m, cell.n, cell.k)
    assert row["options"] == cell.options.suffix.removeprefix(".")


def test_quartiles_are_of_all_samples() -> None:
    row = row_of(with_times([[1e-3, 2e-3], [3e-3, 4e-3, 5e-3]]))
    assert row["spread_low"] == pytest.approx(2e6 / 4e-3 / 1e9)
    assert row["spread_high"] == pytest.approx(2e6 / 2e-3 / 1e9)


def test_one_invocation_has_a_rate_and_no_interval() -> None:
    row = row_of(with_times([[1e-3]]))
    assert row["gflops"] == pytest.approx(2.0)
    assert row["gflops_low"] is None
    assert row["gflops_high"] is None
    assert row["interval_kind"] is None


def test_rounds_are_told_from_what_happened() -> None:
    assert row_of(synthetic.run(CELL, rounds=5))["interval_kind"] == "rounds"
    assert row_of(synthetic.run(CELL, rounds=1))["interval_kind"] == "one-round"


@pytest.mark.parametrize("status", [status for status in STATUSES if status != "ok"])
def test_only_ok_publishes_a_rate(status: str) -> None:
    row = row_of(synthetic.run(CELL, status=status, reason="because"))
    assert all(row[column] is None for column in RATES)
    assert row.times_s == []
    assert (row["status"], row["reason"]) == (status, "because")
    assert row["retry"] == (
        "snakemake --cores 1 -f results/machine-a/numpy-openblas/gemm.float32.100x100x100.t1.jsonl"
    )


@pytest.mark.parametrize(
    ("deploy", "start"),
    [
        ("conda", "snakemake --cores 1 --use-conda -f "),
        ("none", "snakemake --cores 1 --config deploy=none -f "),
        ("venv", "snakemake --cores 1 -f "),
        ("$(x)", "snakemake --cores 1 -f "),
        (None, "snakemake --cores 1 -f "),
    ],
)
def test_retry_follows_the_deployment(deploy: str | None, start: str) -> None:
    failed = synthetic.run(CELL, status="crashed", environment={"deploy": deploy})
    assert row_of(failed)["retry"].startswith(start)


def test_retry_is_quoted_for_the_shell() -> None:
    document = synthetic.run(CELL, status="crashed")
    path = Path("my results; $(x)") / "cell.jsonl"
    row = from_run(document, CellFile("machine-a", "numpy-openblas", CELL, path))
    assert row["retry"] == "snakemake --cores 1 -f 'my results; $(x)/cell.jsonl'"


def test_the_worst_of_the_checks_counts() -> None:
    document = synthetic.run(CELL)
    document["invocations"][0]["verify"] = {"before": {"rel_error": 1e-8}}
    document["invocations"][1]["verify"]["after"] = {"rel_error": 4e-6}
    document["invocations"][2]["threads"]["seen"] = 0.99
    document["invocations"][3]["effective_precision"] = "tf32"
    row = row_of(document)
    assert row["rel_error"] == 4e-6
    assert row["threads_seen"] == 1
    assert row["effective_precision"] == "float32; tf32"


def test_the_componentwise_error_and_the_bits_of_the_result_are_shown() -> None:
    document = synthetic.run(CELL)
    assert row_of(document)["bitwise"] is None
    for one in document["invocations"]:
        one["result"] = {"digest": "aa", "componentwise": None}
    document["invocations"][0]["result"]["componentwise"] = 1.5
    row = row_of(document)
    assert (row["componentwise"], row["bitwise"], row["result_digest"]) == (1.5, "same", "aa")
    document["invocations"][2]["result"]["digest"] = "bb"
    row = row_of(document)
    assert (row["bitwise"], row["result_digest"]) == ("differs", None)


def test_the_recorded_doubts_are_shown() -> None:
    document = with_times([[1e-3], [1.4e-3]])
    document["flags"] = ["throttled", "bimodal"]
    assert row_of(document).flags == ["throttled", "bimodal"]


def test_share_of_peak_comes_from_the_machine() -> None:
    machine = {
        "cpu": {"cores": 2},
        "peaks": {"cpu": {"float32": {"flops_per_core": 4e9}}, "gpu": None},
    }
    document = with_times([[1e-3], [1e-3]])
    assert row_of(document, machine=machine)["peak_share"] == pytest.approx(0.5)
    assert row_of(document, machine={})["peak_share"] is None
    assert row_of(document)["peak_share"] is None


def test_share_of_peak_knows_tf32_and_gpus() -> None:
    machine = {"peaks": {"gpu": {"float32": {"flops": 4e9}, "tf32": {"flops": 16e9}}}}
    document = with_times([[1e-3], [1e-3]]) | {"device": "cuda"}
    assert row_of(document, machine=machine)["peak_share"] == pytest.approx(0.5)
    for invocation in document["invocations"]:
        invocation["effective_precision"] = "tf32"
    assert row_of(document, machine=machine)["peak_share"] == pytest.approx(0.125)


def test_evidence_enters_the_row() -> None:
    document = synthetic.run(CELL, evidence=synthetic.evidence("sgemm64_", "sgemm_kernel_ZEN"))
    row = row_of(document)
    assert (row["routine_seen"], row["routine_evidence"]) == ("cblas_sgemm64_", "traced")
    assert (row["kernel_seen"], row["kernel_evidence"]) == ("sgemm_kernel_ZEN", "sampled")


def test_a_run_of_another_cell_or_backend_is_refused() -> None:
    with pytest.raises(UnusableRunError, match="in the file of"):
        row_of(synthetic.run(synthetic.gemm(64)))
    other = synthetic.run(CELL, backend="torch-cpu")
    with pytest.raises(UnusableRunError, match="backend 'torch-cpu' in the folder"):
        from_run(other, CellFile("machine-a", "numpy-openblas", CELL, Path("x")))


def test_a_renamed_machine_is_its_folder() -> None:
    row = row_of(synthetic.run(CELL, machine="old-name"))
    assert row["machine"] == "machine-a"
    assert row["recorded_machine"] == "old-name"


def test_ok_without_samples_is_refused() -> None:
    document = synthetic.run(CELL)
    for invocation in document["invocations"]:
        invocation["samples"]["elapsed_ns"] = []
    with pytest.raises(UnusableRunError, match="no invocation holds samples"):
        row_of(document)


def test_samples_that_took_no_time_are_refused() -> None:
    document = synthetic.run(CELL)
    document["invocations"][2]["samples"]["elapsed_ns"][1] = 0
    with pytest.raises(UnusableRunError, match="a sample took no time"):
        row_of(document)


def test_strings_where_numbers_belong_are_unknown_and_noted(tmp_path: Path) -> None:
    document = synthetic.run(CELL, library="OpenBLAS", tool=None, order="first")
    document["invocations"][0]["verify"] = "fine"
    synthetic.write_run(tmp_path, document)
    found = collect(tmp_path)
    (row,) = found.cells
    assert (row["library"], row["order"]) == (None, None)
    assert row["gflops"] is not None
    told = " ".join(one.problem for one in found.problems)
    assert "library is 'OpenBLAS', not an object" in told
    assert "order is 'first'" in told
    assert "invocations.0.verify" in told
