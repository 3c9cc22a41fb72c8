"""How far elements of a result are from the exact ones, each in units of what it may be off by.

The componentwise error |C - Ĉ| / (|A| |B|) is what rounding error analysis bounds: at most k u in
any order of sums (Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 3.5). The
exact value is summed without any rounding, so that float64 is judged by something better.
"""

from __future__ import annotations

import hashlib
from math import fsum, isfinite

import numpy as np

from gemmgrid.measure.invocation.operands import Operands
from gemmgrid.measure.invocation.precision import UNIT_ROUNDOFF
from gemmgrid.measure.invocation.reference import stack_of

ELEMENTS = 256
"""Elements of a result that are looked at, at most."""
TERMS = 1 << 18
"""Products that are summed for all of them, at most, but for one whole element: some 50 ms."""
SPLITTER = 2.0**27 + 1
"""Splits a float64 into two halves of 26 bits (Dekker, 1971)."""

Array = np.ndarray


def componentwise(operands: Operands, result: Array, seed: int) -> tuple[float | None, int]:
    """The largest |C - Ĉ| / (|alpha| |A| |B| + |beta| |C0|) of some random elements, in units of
    the dtype's roundoff; and how many elements. None where it is no number.

    result   as `verify` takes it, finite
    """
    product = stack_of(operands)
    stack, rows, columns = product.shape
    there = stack * rows * columns
    count = min(ELEMENTS, there, max(1, TERMS // product.A.shape[2]))
    chosen = np.random.default_rng([seed, 78]).integers(0, there, count)
    index, row, column = np.unravel_index(chosen, product.shape)
    left = product.A[index, row].astype(product.wide)
    right = product.B[index, :, column].astype(product.wide)
    seen = result.reshape(product.shape)[index, row, column].astype(product.wide)
    initial = np.zeros_like(seen)
    if product.C0 is not None:
        initial = product.C0[index, row, column].astype(product.wide)
    errors = np.zeros(count)
    for pairs, start, found in zip(_pairs(left, right), _reals(initial), _reals(seen), strict=True):
        terms = [
            *(term for pair in pairs for term in _scaled(product.alpha, *_exact(*pair))),
            *(one[:, np.newaxis] for one in (*_exact(product.beta, start), -found)),
        ]
        errors = np.hypot(errors, [fsum(line) for line in np.concatenate(terms, axis=1).tolist()])
    sizes = abs(product.alpha) * np.einsum("ek,ek->e", np.abs(left), np.abs(right))
    sizes += abs(product.beta) * np.abs(initial)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.where(errors == 0, 0.0, errors / sizes)
    worst = float(shares.max()) / UNIT_ROUNDOFF[operands.cell.dtype]
    return (worst if isfinite(worst) else None), count


def digest(result: Array) -> str:
    """Equal for results that are bitwise the same."""
    return hashlib.blake2b(
        np.ascontiguousarray(result).view(np.uint8).data, digest_size=8
    ).hexdigest()


def _reals(values: Array) -> list[Array]:
    return [values.real, values.imag] if values.dtype.kind == "c" else [values]


def _pairs(left: Array, right: Array) -> list[list[tuple[Array, Array]]]:
    """Real factors whose products sum up to a product's real part, and to the imaginary one."""
    if left.dtype.kind != "c":
        return [[(left, right)]]
    return [
        [(left.real, right.real), (left.imag, -right.imag)],
        [(left.real, right.imag), (left.imag, right.real)],
    ]


def _exact(a: Array | float, b: Array) -> tuple[Array, Array]:
    """Product and its rounding error, which together are exactly a·b (Dekker, 1971)."""
    product = a * b
    a_high, a_low = _halves(a)
    b_high, b_low = _halves(b)
    error = a_low * b_low - (product - a_high * b_high - a_low * b_high - a_high * b_low)
    return product, error


def _halves(value: Array | float) -> tuple[Array | float, Array | float]:
    high = SPLITTER * value
    high = high - (high - value)
    return high, value - high


def _scaled(alpha: float, product: Array, error: Array) -> list[Array]:
    """Terms of alpha times a product and its error; what alpha·error loses is below u² of it."""
    return [product, error] if alpha == 1 else [*_exact(alpha, product), alpha * error]
