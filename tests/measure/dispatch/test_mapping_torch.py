"""What runs under PyTorch on the CPU: MKL's BLAS, oneDNN, or code of its own."""

from __future__ import annotations

import platform

import pytest

from tests.measure.dispatch.rows import Answer, Seen, row, watch

SETUP = """
import torch
torch.set_num_threads(1)
torch.manual_seed(1)
A, B = torch.randn(256, 256), torch.randn(256, 256)
C = torch.randn(256, 256)
x, y = torch.randn(100000), torch.randn(100000)
v = torch.randn(256)
P, Q = torch.randn(8, 128, 256), torch.randn(8, 256, 128)
p, q = torch.randn(8, 4, 4), torch.randn(8, 4, 4)
A8, B8, AC, BC = A.double(), B.double(), A.to(torch.complex64), B.to(torch.complex64)
AH, BH, AB, BB = A.half(), B.half(), A.bfloat16(), B.bfloat16()
I = A.to(torch.int32)
"""
ROWS = [
    row("A @ B"),
    row("A8 @ B8", dtype="float64"),
    row("AC @ BC", dtype="complex64"),
    row("A @ A.T"),
    row("torch.addmm(C, A, B, beta=2.0)"),
    row("A @ v", "gemv"),
    row("torch.dot(x, y)", "dot"),
    row("P @ B", batch=8),
    row("torch.bmm(P, Q)", batch=8),
    row("torch.bmm(p, q)", batch=8),
    row("AB @ BB", dtype="bfloat16"),
    row("AH @ BH", dtype="float16"),
    row("I @ I", dtype="float32"),
]


@pytest.fixture(scope="module")
def torch() -> Answer:
    return watch("torch-cpu", "torch", SETUP, ROWS)


@pytest.mark.parametrize(
    ("code", "routine"), [("A @ B", "sgemm"), ("A8 @ B8", "dgemm"), ("AC @ BC", "cgemm")]
)
def test_matrices_call_gemm_inside_libtorch(torch: Answer, code: str, routine: str) -> None:
    seen = torch[code]
    assert seen.is_traced(routine)["m"] == 256
    assert "libtorch_cpu" in seen.routine["caller"]
    assert seen.kernel["evidence"] in ("sampled", "traced")  # traced where torch brings OpenBLAS
    assert routine in seen.kernel["name"]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="MKL is in the x86-64 wheel only")
def test_the_kernel_is_mkls_although_numpys_openblas_is_in_the_process(torch: Answer) -> None:
    assert torch["A @ B"].kernel["name"].startswith("mkl_blas_")
    assert torch.cores, "NumPy's OpenBLAS is loaded as well, and must not be named"


def test_a_matrix_times_its_own_transpose_stays_gemm(torch: Answer) -> None:
    arguments = torch["A @ A.T"].is_traced("sgemm")
    assert {arguments["transa"], arguments["transb"]} == {"n", "t"}
    assert torch["A @ A.T"].hidden == {}


def test_addmm_passes_beta(torch: Answer) -> None:
    assert torch["torch.addmm(C, A, B, beta=2.0)"].is_traced("sgemm")["beta"] == 2


def test_vectors(torch: Answer) -> None:
    torch["A @ v"].is_traced("sgemv")
    torch["torch.dot(x, y)"].is_traced("sdot")


def test_a_stack_times_a_matrix_is_one_folded_gemm(torch: Answer) -> None:
    arguments = torch["P @ B"].is_traced("sgemm")
    assert {arguments["m"], arguments["n"]} == {8 * 128, 256}
    assert torch["P @ B"].hidden == {}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="MKL is in the x86-64 wheel only")
def test_bmm_is_mkls_batched_gemm_and_tiny_ones_are_torchs_own(torch: Answer) -> None:
    large, tiny = torch["torch.bmm(P, Q)"], torch["torch.bmm(p, q)"]
    assert large.routine["symbol"] == "cblas_sgemm_batch"
    assert large.routine["evidence"] == "traced"
    assert all(part["evidence"] != "traced" for part in tiny.record["routines"])


def test_bfloat16_and_float16_are_onednns_or_torchs_own(torch: Answer) -> None:
    for code in ("AB @ BB", "AH @ BH"):
        assert_onednn_or_native(torch[code])


def assert_onednn_or_native(seen: Seen) -> None:
    """Which of the two depends on what the processor can do; either must be known."""
    if seen.record["no_blas"]:
        assert "gemm" in seen.is_no_blas()
        return
    assert seen.routine["evidence"] == "logged"
    assert seen.routine["library"] == "oneDNN"
    assert seen.routine["symbol"] == "matmul"
    assert seen.routine["args"]["k"] == 256
    assert seen.kernel["evidence"] == "logged"
    assert ":" in seen.kernel["name"]


def test_integers_use_no_blas(torch: Answer) -> None:
    torch["I @ I"].is_no_blas()


def test_nothing_here_contradicts_itself(torch: Answer) -> None:
    assert all(seen.record["inconsistent"] is None for seen in torch.seen.values())
