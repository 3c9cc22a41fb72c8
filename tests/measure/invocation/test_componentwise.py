"""The componentwise error is the exact one, in units of the dtype's roundoff."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from gemmgrid.measure.invocation import operands
from gemmgrid.measure.invocation.componentwise import componentwise, digest
from gemmgrid.measure.invocation.precision import UNIT_ROUNDOFF
from gemmgrid.measure.invocation.reference import stack_of
from gemmgrid.records.cell import Cell
from tests.measure.invocation.test_verify import CORRECT, computed


def by_fractions(given: operands.Operands, result: np.ndarray) -> float:
    """The same of all elements of a small real product, by rational arithmetic."""
    product, worst = stack_of(given), 0.0
    for index, row, column in np.ndindex(product.shape):
        left = [Fraction(float(one)) for one in product.A[index, row]]
        right = [Fraction(float(one)) for one in product.B[index, :, column]]
        start = Fraction(0 if product.C0 is None else float(product.C0[index, row, column]))
        alpha, beta = Fraction(product.alpha), Fraction(product.beta)
        terms = [alpha * a * b for a, b in zip(left, right, strict=True)] + [beta * start]
        seen = Fraction(float(result.reshape(product.shape)[index, row, column]))
        worst = max(worst, float(abs(sum(terms) - seen) / sum(map(abs, terms))))
    return worst / UNIT_ROUNDOFF[given.cell.dtype]


@pytest.mark.parametrize(
    "name",
    [
        "gemm.float64.2x3x40.t1",
        "gemm.float64.3x2x9.t1.nt.b2.alpha0.1.beta-0.3",
        "gemm.float16.4x4x30.t1",
        "gemv.float32.6x50.t1.beta1",
        "dot.float64.500.t1",
    ],
)
def test_it_is_what_rational_arithmetic_says(name):
    given = operands.make(Cell.parse(name), 4)
    result = computed(given)
    # Few elements and many draws: each of them is drawn.
    drawn = max(componentwise(given, result, seed)[0] for seed in range(40))
    assert drawn == pytest.approx(by_fractions(given, result), rel=1e-9)


@pytest.mark.parametrize("name", CORRECT)
def test_right_results_stay_far_below_k(name):
    cell = Cell.parse(name)
    given = operands.make(cell, 1)
    error, count = componentwise(given, computed(given), 1)
    # The result's own rounding is one; complex products round four times as often.
    assert 0 <= error <= 2 + 8 * np.sqrt(cell.depth)
    assert 1 <= count <= 256


def test_a_result_in_a_lower_precision_has_larger_errors():
    given = operands.make(Cell.parse("gemm.float64.64x64x64.t1"), 1)
    narrow = (given.A.astype("float32") @ given.B.astype("float32")).astype("float64")
    assert componentwise(given, narrow, 1)[0] > 1e6


def test_complex_results_are_compared_in_both_parts():
    given = operands.make(Cell.parse("gemm.complex128.8x8x8.t1"), 1)
    right = computed(given)
    for wrong in (right + 1e-8, right + 1e-8j):
        assert componentwise(given, wrong, 1)[0] > 1e5 > componentwise(given, right, 1)[0]


def test_zeros_are_exact_and_anything_else_for_them_is_no_number():
    given = operands.make(Cell.parse("gemm.float32.4x4x4.t1.zeros"), 1)
    zero = np.zeros((4, 4), "float32")
    assert componentwise(given, zero, 1) == (0.0, 16)
    assert componentwise(given, zero + 1, 1) == (None, 16)


def test_a_digest_tells_a_single_bit_and_not_the_layout():
    values = np.arange(12.0).reshape(3, 4)
    assert digest(values) == digest(np.asfortranarray(values))
    other = values.copy()
    other[2, 3] = np.nextafter(other[2, 3], 99)
    assert digest(values) != digest(other)
