"""Names of BLAS routines, and what their arguments mean."""

from __future__ import annotations

import struct

import pytest

from gemmgrid.measure.dispatch.trace.signatures import parse, watched


@pytest.mark.parametrize(
    ("symbol", "name", "interface", "integer_bytes"),
    [
        ("scipy_cblas_sgemm64_", "sgemm", "cblas", 8),
        ("scipy_sgemm_", "sgemm", "fortran", 4),
        ("cblas_dgemm", "dgemm", "cblas", 4),
        ("dgemm_64_", "dgemm", "fortran", 8),
        ("cblas_dgemm_64", "dgemm", "cblas", 8),
        ("sgemm_", "sgemm", "fortran", 4),
        ("cblas_zdotu_sub64_", "zdotu", "cblas", 8),
        ("cdotc_", "cdotc", "fortran", 4),
        ("cblas_dsdot", "dsdot", "cblas", 4),
        ("cblas_sgemm_batch", "sgemm_batch", "cblas", 4),
        ("cblas_sgemm_batch_strided", "sgemm_batch_strided", "cblas", 4),
        ("cblas_hgemm", "hgemm", "cblas", 4),
        ("cblas_sbgemm64_", "sbgemm", "cblas", 8),
        ("cblas_gemm_bf16bf16f32", "gemm_bf16bf16f32", "cblas", 4),
        ("zherk_", "zherk", "fortran", 4),
        ("cublasSgemm_v2", "cublasSgemm", "cublas", 4),
        ("cublasSgemm_v2_64", "cublasSgemm", "cublas", 8),
        ("cublasGemmEx", "cublasGemmEx", "cublas", 4),
        ("cublasGemmStridedBatchedEx", "cublasGemmStridedBatchedEx", "cublas", 4),
        ("cublasLtMatmul", "cublasLtMatmul", "cublas", 4),
    ],
)
def test_symbols_of_products_are_recognised(
    symbol: str, name: str, interface: str, integer_bytes: int
) -> None:
    routine = parse(symbol)
    assert routine is not None
    assert (routine.name, routine.interface) == (name, interface)
    assert routine.integer_bytes == integer_bytes


@pytest.mark.parametrize(
    "symbol",
    ["sgesv_", "sgemm_kernel_SKYLAKEX", "mkl_blas_avx2_sgemm_kernel_0", "PyArray_MatrixProduct",
     "cblas_xerbla", "sgemmx_", "gemm", "_sgemm_", "cublasCreate_v2", "cublasSetStream_v2",
     "cublasLtMatmulAlgoGetHeuristic", "openblas_get_config"],
)  # fmt: skip
def test_other_symbols_are_not(symbol: str) -> None:
    assert not watched(symbol)


def test_arguments_of_the_c_interface_are_decoded() -> None:
    routine = parse("scipy_cblas_dgemm64_")
    assert routine
    values = {"order": 101, "transa": 111, "transb": 112, "m": 3, "n": 4, "k": 5, "A": 0x1000,
              "lda": 6, "B": 0x2000, "ldb": 7, "C": 0x3000, "ldc": 8}  # fmt: skip
    notes = [
        (struct.pack("<d", 2.5) if name in ("alpha", "beta") else struct.pack("<q", values[name]))
        + bytes(8)
        for name in routine.arguments or []
    ]
    arguments, addresses = routine.decode(notes)
    assert arguments == {"order": "row", "transa": "n", "transb": "t", "m": 3, "n": 4, "k": 5,
                         "alpha": 2.5, "lda": 6, "ldb": 7, "beta": 2.5, "ldc": 8}  # fmt: skip
    assert addresses == {"A": 0x1000, "B": 0x2000, "C": 0x3000}


def test_32_bit_integers_ignore_what_lies_in_the_upper_half_of_a_register() -> None:
    routine = parse("cblas_sdot")
    assert routine
    garbage = 0xDEADBEEF << 32
    notes = [struct.pack("<Q", garbage | value) + bytes(8) for value in (9, 1, 2, 3, 4)]
    assert routine.decode(notes)[0] == {"n": 9, "incx": 2, "incy": 4}


def test_negative_strides_stay_negative() -> None:
    routine = parse("sdot_")
    assert routine
    notes = [struct.pack("<i", value) + bytes(12) for value in (9, 0, -1, 0, -2)]
    assert routine.decode(notes)[0] == {"n": 9, "incx": -1, "incy": -2}


def test_fortran_flags_are_letters_and_complex_scalars_pairs() -> None:
    routine = parse("zgemm_")
    assert routine
    contents = {"transa": b"C", "transb": b"n", "alpha": struct.pack("<dd", 1.0, 2.0),
                "beta": struct.pack("<dd", 3.0, 0.0)}  # fmt: skip
    notes = [contents.get(name, bytes(1)).ljust(16, b"\0") for name in routine.arguments or []]
    arguments, _ = routine.decode(notes)
    assert (arguments["transa"], arguments["transb"]) == ("c", "n")
    assert arguments["alpha"] == [1.0, 2.0]
    assert arguments["beta"] == 3.0


def test_scalars_of_cublas_may_lie_on_the_device_and_are_never_read() -> None:
    routine = parse("cublasSgemm_v2")
    assert routine
    captures = dict(zip(routine.arguments or [], routine.captures(6, 8), strict=True))
    assert captures["device_alpha"].pointed_bytes == 0
    assert captures["device_beta"].pointed_bytes == 0


def test_routines_with_unknown_arguments_are_only_counted() -> None:
    for symbol in ("cdotu_", "cblas_sgemm_batch", "cublasGemmEx", "cblas_hgemm"):
        routine = parse(symbol)
        assert routine
        assert routine.arguments is None
        assert routine.captures(6, 8) == []
