"""What runs under NumPy's expressions, seen: the rows that the lesson's table leaves out, too."""

from __future__ import annotations

import pytest

from tests.measure.dispatch.rows import Answer, row, watch

SETUP = """
import numpy as np
generator = np.random.default_rng(1)
def random(*shape):
    return generator.standard_normal(shape).astype(np.float32)
A, B = random(256, 256), random(256, 256)
x, y = A[0].copy(), B[0].copy()
P, Q = random(8, 64, 256), random(8, 256, 64)
A8, B8, AC, BC, AZ, BZ = (M.astype(t) for t in ("f8", "c8", "c16") for M in (A, B))
H, I, L = A.astype("f2"), A.astype("i8"), A[:48, :48].astype(np.longdouble)
small, S = A[:64, :64].copy(), A[:1, :1].copy()
column, rowvector = A[:, :1].copy(), A[:1].copy()
shifted = np.frombuffer(bytearray(A.nbytes + 1), np.uint8)[1:].view(np.float32).reshape(A.shape)
shifted[...] = A
swapped = A.astype(">f4")
"""
VECTOR = {"routine": "dot"}
ROWS = [
    *map(row, ("A @ B", "np.dot(A, B)", "np.matmul(A, B)", "small @ small")),
    row("A8 @ B8", dtype="float64"),
    row("AC @ BC", dtype="complex64"),
    row("AZ @ BZ", dtype="complex128"),
    row("H @ H", dtype="float16"),
    *map(row, ("I @ I", "L @ L", "A @ A.T", "A @ A.T.copy()", "np.inner(A, A)", "np.cov(A)")),
    row("AC @ AC.conj().T", dtype="complex64"),
    *(row(code, "gemv") for code in ("A @ x", "A @ column", "rowvector @ B", "A.T @ x")),
    *(row(code, "dot") for code in ("np.dot(x, y)", "x @ y", "x[::-1] @ y")),
    row("AC[0] @ BC[0]", "dot", dtype="complex64"),
    row("np.vdot(AC[0], BC[0])", "dot", dtype="complex64"),
    row("A @ x[::-1]", "gemv"),
    *map(row, ("A[::-1] @ B", "A[:, ::2] @ B[:128]", "A[::2] @ B", "shifted @ B", "swapped @ B")),
    row("P @ Q", batch=8),
    row("np.dot(P, B)", batch=8),
    row("np.tensordot(P, B, 1)", batch=8),
    row("np.einsum('ij,jk->ik', A, B)"),
    row("np.einsum('ij,jk->ik', A, B, optimize=True)"),
    *map(row, ("np.outer(x, y)", "S @ S", "A[:, :0] @ B[:0]")),
]  # fmt: skip


@pytest.fixture(scope="module")
def seen() -> Answer:
    return watch("numpy-openblas", "numpy", SETUP, ROWS)


@pytest.mark.parametrize("code", ["A @ B", "np.dot(A, B)", "np.matmul(A, B)"])
def test_a_float32_product_is_one_sgemm_of_numpys_own_openblas(seen: Answer, code: str) -> None:
    arguments = seen[code].is_traced("sgemm")
    assert [arguments[name] for name in ("m", "n", "k", "lda", "ldb", "ldc")] == [256] * 6
    assert (arguments["transa"], arguments["transb"]) == ("n", "n")
    assert (arguments["alpha"], arguments["beta"]) == (1, 0)
    assert "scipy_openblas64" in seen[code].routine["library"]
    assert "_multiarray_umath" in seen[code].routine["caller"]
    assert seen[code].routine["symbol"] == "scipy_cblas_sgemm64_"


def test_its_kernel_is_of_the_core_that_the_library_reports(seen: Answer) -> None:
    kernel = seen["A @ B"].kernel
    assert kernel["evidence"] == "traced"
    assert kernel["name"].startswith("sgemm_kernel")
    assert kernel["count"] > 1
    assert [kernel["core"]] == seen.cores
    assert kernel["name"].upper().endswith(kernel["core"].upper())
    assert kernel["library"] == seen["A @ B"].routine["library"]


@pytest.mark.parametrize(
    ("code", "routine"), [("A8 @ B8", "dgemm"), ("AC @ BC", "cgemm"), ("AZ @ BZ", "zgemm")]
)
def test_other_dtypes_have_their_own_gemm_and_kernel(seen: Answer, code: str, routine: str) -> None:
    seen[code].is_traced(routine)
    assert seen[code].kernel["name"].startswith(routine)


def test_small_products_may_have_a_kernel_of_their_own(seen: Answer) -> None:
    seen["small @ small"].is_traced("sgemm")
    name = seen["small @ small"].kernel["name"]
    has_them = {"haswell": False, "skylakex": True}.get(seen.cores[0].lower())
    assert has_them is None or ("small_kernel" in name) == has_them


@pytest.mark.parametrize(
    ("code", "function"),
    [("H @ H", "HALF_matmul"), ("I @ I", "LONG_matmul"), ("L @ L", "LONGDOUBLE_matmul")],
)
def test_dtypes_that_blas_does_not_know_use_no_blas(seen: Answer, code: str, function: str) -> None:
    assert seen[code].is_no_blas() == function
    assert seen[code].kernel["evidence"] == "sampled"
    assert seen[code].kernel["name"] == function
    assert seen[code].kernel["samples"] >= 50


def test_float16_is_converted_element_by_element(seen: Answer) -> None:
    assert "float16" in seen["H @ H"].hidden["upcast"]["explanation"]


@pytest.mark.parametrize("code", ["A @ A.T", "np.inner(A, A)"])
def test_a_matrix_times_its_own_transpose_is_syrk(seen: Answer, code: str) -> None:
    seen[code].is_traced("ssyrk")
    assert seen[code].kernel["name"].startswith("sgemm_kernel")
    assert seen[code].hidden["syrk"]["count"] == 1


def test_cov_is_syrk_in_float64(seen: Answer) -> None:
    seen["np.cov(A)"].is_traced("dsyrk")


def test_a_copy_of_the_transpose_is_gemm_again(seen: Answer) -> None:
    seen["A @ A.T.copy()"].is_traced("sgemm")


def test_a_matrix_times_its_conjugate_transpose_is_cgemm_on_a_copy(seen: Answer) -> None:
    seen["AC @ AC.conj().T"].is_traced("cgemm")
    assert seen["AC @ AC.conj().T"].hidden["operand-copy"]["bytes"] == 256 * 256 * 8


@pytest.mark.parametrize("code", ["A @ x", "A @ column", "rowvector @ B", "A.T @ x"])
def test_a_matrix_times_a_vector_is_gemv(seen: Answer, code: str) -> None:
    seen[code].is_traced("sgemv")
    assert seen[code].kernel["name"].startswith("sgemv_")


@pytest.mark.parametrize("code", ["np.dot(x, y)", "x @ y"])
def test_two_vectors_are_dot(seen: Answer, code: str) -> None:
    assert seen[code].is_traced("sdot") == {"n": 256, "incx": 1, "incy": 1}
    assert seen[code].kernel["name"].startswith("sdot_k")


def test_complex_vectors_are_dotu_and_vdot_is_dotc(seen: Answer) -> None:
    seen["AC[0] @ BC[0]"].is_traced("cdotu")
    seen["np.vdot(AC[0], BC[0])"].is_traced("cdotc")


def test_a_reversed_vector_uses_no_blas(seen: Answer) -> None:
    seen["x[::-1] @ y"].is_no_blas()
    seen["A @ x[::-1]"].is_no_blas()


@pytest.mark.parametrize(
    "code", ["A[::-1] @ B", "A[:, ::2] @ B[:128]", "shifted @ B", "swapped @ B"]
)
def test_layouts_that_blas_cannot_take_are_copied_first(seen: Answer, code: str) -> None:
    seen[code].is_traced("sgemm")
    copy = seen[code].hidden["operand-copy"]
    assert copy["count"] == 1
    assert copy["bytes"] == (256 * 128 if "::2" in code else 256 * 256) * 4


def test_every_second_row_passes_through_as_a_leading_dimension(seen: Answer) -> None:
    arguments = seen["A[::2] @ B"].is_traced("sgemm")
    assert (arguments["m"], arguments["lda"]) == (128, 512)
    assert seen["A[::2] @ B"].hidden == {}


def test_a_stack_is_one_gemm_for_each_matrix(seen: Answer) -> None:
    seen["P @ Q"].is_traced("sgemm", count=8)
    assert seen["P @ Q"].hidden["per-slice"]["count"] == 8


def test_np_dot_of_a_stack_and_a_matrix_is_a_dot_for_each_element(seen: Answer) -> None:
    elements = 8 * 64 * 256
    seen["np.dot(P, B)"].is_traced("sdot", count=elements)
    assert seen["np.dot(P, B)"].hidden["many-calls"]["count"] == elements
    seen["np.tensordot(P, B, 1)"].is_traced("sgemm")
    assert seen["np.tensordot(P, B, 1)"].hidden == {}


def test_einsum_uses_blas_only_when_asked_to_optimise(seen: Answer) -> None:
    assert "sum_of_products" in seen["np.einsum('ij,jk->ik', A, B)"].is_no_blas()
    seen["np.einsum('ij,jk->ik', A, B, optimize=True)"].is_traced("sgemm")


@pytest.mark.parametrize("code", ["np.outer(x, y)", "S @ S", "A[:, :0] @ B[:0]"])
def test_products_without_sums_call_no_routine(seen: Answer, code: str) -> None:
    assert all(part["evidence"] != "traced" for part in seen[code].record["routines"])
    assert seen[code].record["slots_watched"] > 0


def test_nothing_here_contradicts_itself(seen: Answer) -> None:
    assert {label: s.record["inconsistent"] for label, s in seen.seen.items()} == dict.fromkeys(
        seen.seen
    )
