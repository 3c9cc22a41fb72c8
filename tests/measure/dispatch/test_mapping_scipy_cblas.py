"""What runs under SciPy's BLAS wrappers, and under BLAS libraries called directly."""

from __future__ import annotations

import pytest

from tests.measure.dispatch.rows import Answer, row, watch

SCIPY = """
import numpy as np
from scipy.linalg.blas import sgemm, sdot, cdotu, sgemv
generator = np.random.default_rng(1)
A, B = (generator.standard_normal((200, 200)).astype(np.float32) for _ in "AB")
C = np.zeros((200, 200), np.float32, order="F")
C64 = np.zeros((200, 200), np.float64, order="F")
x, y = A[0].copy(), B[0].copy()
z = x.astype(np.complex64)
"""
ROWS = [
    row("sgemm(1.0, A, B)"),
    row("sgemm(1.0, B.T, A.T).T"),
    row("sgemm(1.0, B.T, A.T, beta=1.0, c=C, overwrite_c=1)", output="C"),
    row("sgemm(1.0, B.T, A.T, beta=1.0, c=C64, overwrite_c=1)", output="C64"),
    row("A @ B"),
    row("sgemv(1.0, A.T, x, trans=1)", "gemv"),
    row("sdot(x, y)", "dot"),
    row("cdotu(z, z)", "dot", dtype="complex64"),
]

CBLAS = """
import numpy as np
from gemmgrid.measure.invocation import operands
from gemmgrid.measure.adapters.cblas import CblasAdapter
from gemmgrid.measure.invocation.loop import compile_loop
from gemmgrid.records.cell import Cell
adapter = CblasAdapter("cpu", {OPTIONS})
def prepared(name):
    cell = Cell.parse(name)
    return compile_loop(adapter.prepare(cell, operands.make(cell, 1)))
loops = {name: prepared(name) for name in NAMES}
def run(name):
    return loops[name].batch(1)
"""
CELLS = ["gemm.float32.200x200x200.t1.nt", "gemv.float64.200x100.t1", "dot.complex64.200.t1"]


@pytest.fixture(scope="module")
def scipy() -> Answer:
    return watch("scipy-openblas", "scipy", SCIPY, ROWS)


def test_scipy_calls_the_fortran_interface_of_a_second_openblas(scipy: Answer) -> None:
    direct, matmul = scipy["sgemm(1.0, A, B)"], scipy["A @ B"]
    direct.is_traced("sgemm")
    matmul.is_traced("sgemm")
    assert direct.routine["symbol"] == "scipy_sgemm_"
    assert "_fblas" in direct.routine["caller"]
    assert direct.routine["library"] != matmul.routine["library"]
    assert direct.kernel["library"] == direct.routine["library"]
    assert matmul.kernel["library"] == matmul.routine["library"]
    assert direct.kernel["name"].startswith("sgemm_kernel")


def test_row_major_operands_are_both_copied_in_silence(scipy: Answer) -> None:
    copies = scipy["sgemm(1.0, A, B)"].hidden["operand-copy"]
    assert (copies["count"], copies["bytes"]) == (2, 2 * 200 * 200 * 4)
    assert "sgemm(1, B.T, A.T).T" in copies["explanation"]


def test_their_transposed_views_are_not(scipy: Answer) -> None:
    assert scipy["sgemm(1.0, B.T, A.T).T"].hidden == {}


def test_a_result_given_in_the_right_form_is_written_in_place(scipy: Answer) -> None:
    in_place = scipy["sgemm(1.0, B.T, A.T, beta=1.0, c=C, overwrite_c=1)"]
    assert in_place.is_traced("sgemm")["beta"] == 1
    assert in_place.hidden == {}


def test_a_result_of_another_dtype_is_copied_and_left_alone(scipy: Answer) -> None:
    copied = scipy["sgemm(1.0, B.T, A.T, beta=1.0, c=C64, overwrite_c=1)"]
    assert copied.is_traced("sgemm")["beta"] == 1
    assert "C64" in copied.hidden["operand-copy"]["explanation"]


def test_vectors(scipy: Answer) -> None:
    assert scipy["sgemv(1.0, A.T, x, trans=1)"].is_traced("sgemv")["transa"] == "t"
    scipy["sdot(x, y)"].is_traced("sdot")
    scipy["cdotu(z, z)"].is_traced("cdotu")
    assert "not read" in scipy["cdotu(z, z)"].routine["reason"]


def cblas(environment: str, options: str) -> Answer:
    setup = CBLAS.replace("{OPTIONS}", options).replace("NAMES", repr(CELLS))
    rows = [row(f"run({name!r})", name.split(".")[0]) for name in CELLS]
    return watch(environment, "cblas", setup, rows)


def test_openblas_called_directly() -> None:
    seen = cblas("cblas-openblas", '{"library": "openblas"}')
    gemm, gemv, dot = (seen[f"run({name!r})"] for name in CELLS)
    assert gemm.is_traced("sgemm")["transb"] == "t"
    assert gemm.routine["caller"] == "ctypes"
    assert "scipy_openblas64" in gemm.routine["library"]
    assert gemm.kernel["evidence"] == "traced"
    assert gemm.kernel["core"] in seen.cores
    assert gemm.kernel["library"] == gemm.routine["library"]
    assert gemv.is_traced("dgemv")["n"] == 100
    dot.is_traced("cdotu")


def test_mkl_called_directly() -> None:
    seen = cblas("cblas-mkl", '{"library": "mkl"}')
    gemm, gemv, dot = (seen[f"run({name!r})"] for name in CELLS)
    assert gemm.is_traced("sgemm")["transb"] == "t"
    assert "libmkl_rt" in gemm.routine["library"]
    assert gemm.kernel["evidence"] == "sampled"
    assert gemm.kernel["name"].startswith("mkl_blas_")
    assert "sgemm" in gemm.kernel["name"]
    assert gemm.kernel["share"] > 0.5
    gemv.is_traced("dgemv")
    dot.is_traced("cdotu")
