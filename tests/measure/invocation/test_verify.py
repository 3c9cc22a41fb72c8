"""Verification: right results pass in every dtype and layout, wrong ones never do."""

from __future__ import annotations

import numpy as np
import pytest

from gemmgrid.measure.invocation import operands
from gemmgrid.measure.invocation.precision import bound
from gemmgrid.measure.invocation.verify import verify
from gemmgrid.records.cell import Cell


def op(matrix: np.ndarray, letter: str) -> np.ndarray:
    if letter == "n":
        return matrix
    swapped = np.swapaxes(matrix, -1, -2)
    return swapped.conj() if letter == "c" else swapped


def computed(given: operands.Operands) -> np.ndarray:
    """The product as a correct library computes it: 16-bit types with float32 sums."""
    cell, options = given.cell, given.cell.options
    A, B = given.A, given.B
    if cell.dtype == "float16":
        A, B = A.astype(np.float32), B.astype(np.float32)
    if cell.routine == "dot":
        return np.asarray(np.dot(A, B)).astype(given.A.dtype)
    right = B if cell.routine == "gemv" else op(B, options.trans[1])
    result = op(A, options.trans[0]) @ right * A.dtype.type(options.alpha)
    if given.C0 is not None:
        result = result + A.dtype.type(options.beta) * given.C0
    result = result.astype(given.A.dtype)
    if cell.dtype == "bfloat16":
        operands.round_to_bfloat16(result)
    return result


CORRECT = [
    "gemm.float32.300x200x500.t1",
    "gemm.float64.5x6x7.t1",
    "gemm.float64.50x60x70.t1.tn.b3.colmajor.ld8",
    "gemm.complex64.50x60x70.t1.nc",
    "gemm.complex128.64x64x64.t1.ct",
    "gemm.bfloat16.256x256x256.t1",
    "gemm.float16.300x300x300.t1",
    "gemm.float64.50x60x70.t1.alpha3.beta1",
    "gemm.float32.64x64x64.t1.integers",
    "gemm.float32.1x1x1.t1",
    "gemm.float32.40x40x40.t1.b500",
    "gemv.float16.500x700.t1",
    "gemv.complex64.300x100.t1.cn",
    "gemv.float64.100x200.t1.beta-2",
    "dot.float32.1000000.t1",
    "dot.float64.3.t1",
    "dot.complex128.1000.t1",
]


@pytest.mark.parametrize("name", CORRECT)
def test_right_results_pass(name):
    cell = Cell.parse(name)
    for seed in range(3):
        given = operands.make(cell, seed)
        verdict = verify(given, computed(given), seed)
        assert verdict.ok, verdict
        assert verdict.precision == cell.dtype
        assert verdict.rel_error <= bound(cell.dtype, cell.depth)


@pytest.mark.parametrize("name", CORRECT)
def test_one_wrong_element_anywhere_is_found(name):
    cell = Cell.parse(name)
    given = operands.make(cell, 1)
    right = computed(given)
    places = {0, right.size - 1, right.size // 3, right.size // 2}
    for place in places:
        wrong = right.copy()
        wrong.reshape(-1)[place] += 10 * cell.depth**0.5
        verdict = verify(given, wrong, place)
        assert not verdict.ok
        assert verdict.problem == "error"


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (lambda result: result.__setitem__((-1, -1), np.nan), "nan"),
        (lambda result: result.__setitem__((0, 3), np.inf), "inf"),
        (lambda result: result.fill(0), "zeros"),
        (lambda result: result.__setitem__(slice(100, None), 0), "error"),
        (lambda result: result.__imul__(1.001), "error"),
        (lambda result: result.sort(axis=0), "error"),
    ],
)
def test_spoiled_results_are_named(spoil, problem):
    given = operands.make(Cell.parse("gemm.float32.128x128x128.t1"), 1)
    result = computed(given)
    spoil(result)
    verdict = verify(given, result, 1)
    assert (verdict.ok, verdict.problem) == (False, problem)
    assert verdict.detail


def test_a_wrong_shape_is_an_error():
    given = operands.make(Cell.parse("gemm.float32.4x5x6.t1"), 1)
    assert not verify(given, np.zeros((5, 4), np.float32), 1).ok


def test_zeros_are_right_where_the_inputs_are_zeros():
    given = operands.make(Cell.parse("gemm.float32.16x16x16.t1.zeros"), 1)
    assert verify(given, np.zeros((16, 16), np.float32), 1).ok
    assert not verify(given, np.full((16, 16), 1e-30, np.float32), 1).ok


def keep_bits(values: np.ndarray, bits: int) -> np.ndarray:
    raw = values.copy().view(np.uint32)
    dropped = 23 - bits
    raw += (1 << (dropped - 1)) - 1 + ((raw >> dropped) & 1)
    raw &= np.uint32((0xFFFFFFFF << dropped) & 0xFFFFFFFF)
    return raw.view(np.float32)


@pytest.mark.parametrize(
    ("compute", "name"),
    [
        (lambda A, B: keep_bits(A, 10) @ keep_bits(B, 10), "tf32"),
        (lambda A, B: keep_bits(A, 7) @ keep_bits(B, 7), "bfloat16"),
        (lambda A, B: (A.astype("f2") @ B.astype("f2")).astype("f4"), "float16"),
        (lambda A, B: A @ B, "float32"),
    ],
)
@pytest.mark.parametrize("size", [32, 512])
def test_the_precision_that_was_computed_in_is_named(compute, name, size):
    given = operands.make(Cell.parse(f"gemm.float32.{size}x{size}x{size}.t1"), 3)
    verdict = verify(given, compute(given.A, given.B), 1)
    assert verdict.ok
    assert verdict.precision == name


def test_float64_computed_in_float32_is_named():
    given = operands.make(Cell.parse("gemm.float64.256x256x256.t1"), 3)
    result = (given.A.astype("f4") @ given.B.astype("f4")).astype("f8")
    verdict = verify(given, result, 1)
    assert verdict.ok
    assert verdict.precision == "float32"


def test_half_sums_of_half_operands_are_named():
    given = operands.make(Cell.parse("gemm.float16.64x64x1024.t1"), 3)
    sums = np.zeros((64, 64), np.float16)
    for index in range(1024):
        sums += np.outer(given.A[:, index], given.B[index])
    verdict = verify(given, sums, 1)
    assert verdict.ok
    assert verdict.precision == "float16 sums"


def test_ignoring_beta_or_the_second_operand_is_wrong():
    given = operands.make(Cell.parse("gemm.float64.50x60x70.t1.beta1"), 1)
    assert not verify(given, given.A @ given.B, 1).ok
    square = operands.make(Cell.parse("gemm.float64.60x60x60.t1"), 1)
    assert not verify(square, square.A @ square.A, 1).ok


DTYPES = ["float16", "bfloat16", "float32", "float64", "complex64"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("depth", [1, 2, 17, 300, 5000, 100_000])
def test_every_depth_of_sums(dtype, depth):
    for name in (f"gemm.{dtype}.4x5x{depth}.t1", f"dot.{dtype}.{depth}.t1"):
        for seed in range(4):
            given = operands.make(Cell.parse(name), seed)
            verdict = verify(given, computed(given), seed)
            assert verdict.ok, (name, seed, verdict)
            assert verdict.precision == dtype, (name, seed, verdict)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "name",
    ["gemm.{}.256x256x256.t1.nt.reuse", "gemm.{}.256x256x256.t1.tn.reuse", "dot.{}.9999.t1.reuse"],
)
def test_an_operand_with_itself(dtype, name):
    """The diagonal of A times its own transpose is sqrt(k) times as large as the rest."""
    for seed in range(3):
        given = operands.make(Cell.parse(name.format(dtype)), seed)
        result = computed(given)
        verdict = verify(given, result, seed)
        assert verdict.ok, (seed, verdict)
        assert verdict.precision == dtype
        wrong = result.copy()
        with np.errstate(over="ignore"):
            wrong.reshape(-1)[-1] *= -9
        assert not verify(given, wrong, seed).ok


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_sums_that_cancel(dtype):
    """[x, x] times [y, -y] is 0, but for one product; the roundings on the way are of the sums."""
    given = operands.make(Cell.parse(f"gemm.{dtype}.32x40x512.t1"), 1)
    given.A[:, 256:] = given.A[:, :256]
    given.B[256:] = -given.B[:256]
    given.B[0] *= 2
    result = computed(given)
    assert verify(given, result, 1).ok
    spoiled = result + result.dtype.type(50.0)
    assert not verify(given, spoiled, 1).ok


@pytest.mark.parametrize(
    ("dtype", "left", "right"),
    [
        ("float64", 2.0**700, 2.0**-700),
        ("float64", 2.0**-1060, 1.0),  # subnormal operands
        ("float64", 2.0**-540, 2.0**-530),  # subnormal products
        ("float32", 2.0**100, 2.0**-100),
        ("float32", 2.0**-140, 1.0),
        ("float32", 2.0**-70, 2.0**-68),
        ("float16", 2.0**-12, 2.0**-12),  # a result of few bits
        ("float16", 2.0**4, 2.0**2),
        ("bfloat16", 2.0**100, 2.0**-90),
        ("complex64", 2.0**80, 2.0**-85),
    ],
)
def test_numbers_of_every_exponent(dtype, left, right):
    given = operands.make(Cell.parse(f"gemm.{dtype}.24x30x200.t1"), 1)
    given.A[...] = given.A * given.A.dtype.type(left)
    given.B[...] = given.B * given.B.dtype.type(right)
    result = computed(given)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        verdict = verify(given, result, 1)
    assert verdict.ok, verdict
    assert np.isfinite(verdict.rel_error)
    wrong = result.copy()
    wrong[3, 4] += 9 * np.abs(result).max() + wrong.dtype.type(2.0**-20)
    assert not verify(given, wrong, 1).ok
