"""The answer: who is fastest for what, by how much, why, and how surely."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gemmgrid.report.judge.findings import Answer, across_machines, answers, size_class
from gemmgrid.report.read.collect import collect
from gemmgrid.report.read.rows import Row
from tests.report import synthetic

CELL = synthetic.gemm(1024, threads=2)


def write(results: Path, backend: str, rate: float, **fields: Any) -> None:
    cell = fields.pop("cell", CELL)
    chosen = {"rounds": 5, "invocations": 15, "spread": 0.002} | fields
    machine = chosen.pop("machine", "machine-a")
    synthetic.write_run(results, synthetic.run(cell, machine, backend, gflops=rate, **chosen), cell)


def only(results: Path) -> Answer:
    (answer,) = answers(collect(results).cells)
    return answer


def test_a_tie_and_one_behind_with_its_kernel(tmp_path: Path) -> None:
    write(tmp_path, "cblas-openblas", 490)
    write(tmp_path, "numpy-openblas", 489)
    kernel = synthetic.evidence("sgemm", "mkl_blas_def_sgemm_kernel_0_zen")
    write(tmp_path, "torch-cpu", 212, evidence=kernel)
    answer = only(tmp_path)
    assert answer.topic == "float32 gemm 1024³, 2 threads"
    told = answer.sentence
    assert "GFLOP/s, a tie; torch-cpu 212 (0.43 ×, 2.3 times slower): MKL’s generic Zen" in told
    assert "not firm" not in told


def test_one_round_ranks_and_calls_nothing_slower(tmp_path: Path) -> None:
    write(tmp_path, "numpy-openblas", 400, rounds=1, invocations=5)
    write(tmp_path, "torch-cpu", 100, rounds=1, invocations=5)
    answer = only(tmp_path)
    assert [one.row["backend"] for one in answer.ranked] == ["numpy-openblas", "torch-cpu"]
    assert "torch-cpu 100 (0.25 ×)" in answer.sentence
    assert "1 round: not firm" in answer.sentence
    assert "slower" not in answer.sentence
    assert "tie" not in answer.sentence


@pytest.mark.parametrize("flag", ["wrong-threads", "loaded", "other-state"])
def test_what_ran_in_doubt_stands_apart(tmp_path: Path, flag: str) -> None:
    write(tmp_path, "numpy-openblas", 100)
    write(tmp_path, "torch-cpu", 900, flags=[flag])
    answer = only(tmp_path)
    assert [one.row["backend"] for one in answer.ranked] == ["numpy-openblas"]
    assert f"; apart stand torch-cpu 900 ({flag})." in answer.sentence


def test_a_doubt_of_all_is_said_and_ranks(tmp_path: Path) -> None:
    for backend, rate in (("numpy-openblas", 100), ("torch-cpu", 50)):
        write(tmp_path, backend, rate, flags=["loaded"])
    answer = only(tmp_path)
    assert len(answer.ranked) == 2
    assert answer.sentence.endswith("; all loaded.")


def test_wrong_threads_of_all_rank_nobody(tmp_path: Path) -> None:
    write(tmp_path, "numpy-openblas", 100, flags=["wrong-threads"])
    assert only(tmp_path).sentence.startswith("no rate to rank; apart stand numpy-openblas")


def test_reasons_come_from_the_evidence(tmp_path: Path) -> None:
    write(tmp_path, "numpy-openblas", 400, evidence=synthetic.evidence("sgemm", "fast"))
    bare = {"status": "ok", "routines": [], "kernels": [], "no_blas": {"function": "loop"}}
    write(tmp_path, "mlx-cpu", 10, evidence=bare)
    copy = synthetic.evidence("sgemm", "fast") | {"hidden": [{"what": "copy of A"}]}
    write(tmp_path, "torch-cpu", 200, evidence=copy)
    documented = {"kernels": [{"evidence": "documented", "name": "guess"}], "status": "ok"}
    write(tmp_path, "jax-cpu", 100, evidence=documented)
    reasons = {one.row["backend"]: one.reason for one in only(tmp_path).ranked}
    assert reasons == {
        "numpy-openblas": None,
        "torch-cpu": "copy of A",
        "mlx-cpu": "no BLAS did the work",
        "jax-cpu": None,
    }


def test_one_cell_and_none(tmp_path: Path) -> None:
    assert answers([]) == across_machines([]) == []
    write(tmp_path, "numpy-openblas", 100)
    assert "GFLOP/s, nothing to rank it against" in only(tmp_path).sentence
    failed = tmp_path / "failed"
    write(failed, "numpy-openblas", 100, status="crashed", reason="x")
    assert answers(collect(failed).cells) == []


def test_machines_are_never_mixed(tmp_path: Path) -> None:
    for machine, rate in (("old", 100), ("new", 300)):
        write(tmp_path, "numpy-openblas", rate, machine=machine)
        write(tmp_path, "torch-cpu", rate / 2, machine=machine)
    cells = collect(tmp_path).cells
    assert [answer.machine for answer in answers(cells)] == ["new", "old"]
    assert all(
        {one["machine"] for one in answer.rows} == {answer.machine} for answer in answers(cells)
    )
    (across,) = across_machines(cells)
    assert across.sentence.startswith("new (numpy-openblas, 2 threads) 3")
    assert "old (numpy-openblas, 2 threads) 99.9" in across.sentence
    assert "(0.33 ×, 3.0 times slower)" in across.sentence


def test_a_question_takes_the_shape_that_most_measured(tmp_path: Path) -> None:
    wide, common = synthetic.gemm(2048, threads=2), CELL
    write(tmp_path, "numpy-openblas", 500, cell=wide)
    for backend in ("numpy-openblas", "torch-cpu"):
        write(tmp_path, backend, 400, cell=common)
    assert only(tmp_path).topic == "float32 gemm 1024³, 2 threads"


@pytest.mark.parametrize(
    ("shape", "name"),
    [
        ((256, 256, 256), "small"),
        ((257, 257, 257), "medium"),
        ((4096, 4096, 4096), "large"),
        ((None, 65536, None), "small"),
        ((None, 65537 * 4, None), "medium"),
    ],
)
def test_size_classes(shape: tuple[int | None, ...], name: str) -> None:
    assert size_class(Row(dict(zip("mnk", shape, strict=True)))) == name
