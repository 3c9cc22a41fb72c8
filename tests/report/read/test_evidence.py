"""What the evidence of a run says in a table's cell: seen and expected are never mixed."""

from __future__ import annotations

from typing import Any

import pytest

from gemmgrid.report.lesson.check import expected
from gemmgrid.report.read import evidence
from gemmgrid.report.read.evidence import MARKS
from gemmgrid.report.read.fields import Fields


def read(**parts: Any) -> evidence.Evidence:
    return evidence.read(Fields({"evidence": {"status": "ok", **parts}}))


def test_no_evidence_is_no_claim() -> None:
    found = evidence.read(Fields({"evidence": None}))
    assert found.status is None
    assert found.routine == (None, None)
    assert found.kernel == (None, None)


def test_the_strongest_mark_wins_and_hides_weaker_names() -> None:
    found = read(
        routines=[
            {"evidence": "documented", "symbol": "expected_gemm"},
            {"evidence": "traced", "symbol": "cblas_sgemm"},
            {"evidence": "traced", "symbol": "cblas_sgemm"},
            {"evidence": "traced", "symbol": "cblas_ssyrk"},
        ]
    )
    assert found.routine == ("cblas_sgemm + cblas_ssyrk", "traced")


def test_unknown_has_no_name() -> None:
    found = read(kernels=[{"evidence": "unknown", "reason": "perf_event_paranoid is 3"}])
    assert found.kernel == (None, "unknown")
    assert found.kernels[0].reason == "perf_event_paranoid is 3"


def test_a_failed_look_is_unknown_not_absent() -> None:
    found = read(status="failed", reason="the process died")
    assert found.routine == (None, "unknown")


def test_no_blas_names_its_proof() -> None:
    found = read(no_blas={"slots_watched": 41, "function": "HALF_matmul", "share": 0.97})
    assert found.routine == ("no BLAS (HALF_matmul did the work, 41 slots watched)", "sampled")


def test_a_mark_nobody_knows_is_unknown() -> None:
    found = read(routines=[{"evidence": "sworn", "symbol": "sgemm"}])
    assert found.routine[1] == "unknown"
    assert found.routines[0].mark in MARKS


def test_hidden_work_is_kept() -> None:
    found = read(hidden=[{"what": "operand-copy", "count": 2, "bytes": 10**6, "explanation": "C"}])
    assert found.hidden[0].what == "operand-copy"
    assert found.hidden[0].bytes == 10**6


@pytest.mark.parametrize("nonsense", ["yes", 7, [1], {"routines": 3}, {"routines": [None]}])
def test_nonsense_is_harmless(nonsense: Any) -> None:
    assert evidence.read(Fields({"evidence": nonsense})).routine[0] is None


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (("numpy", "cpu", "gemm", "float32"), "sgemm"),
        (("numpy", "cpu", "gemv", "float64"), "dgemv"),
        (("numpy", "cpu", "dot", "float32"), "sdot"),
        (("numpy", "cpu", "gemm", "float16"), None),
        (("scipy", "cpu", "gemm", "float64"), "dgemm"),
        (("torch", "cuda", "gemm", "float32"), "cublasSgemm"),
        (("torch", "cuda", "gemm", "bfloat16"), "cublasGemmEx"),
        (("torch", "cuda", "gemv", "float32"), None),
        (("torch", "mps", "gemm", "float32"), "MPSMatrixMultiplication"),
        (("torch", "cpu", "gemm", "float32"), None),
        (("mlx", "gpu", "gemm", "float32"), "MPSMatrixMultiplication"),
        (("mlx", "cpu", "gemm", "float32"), None),
        ((None, None, "gemm", "float32"), None),
    ],
)
def test_what_the_lesson_expects(call: Any, name: str | None) -> None:
    assert expected(*call) == name
