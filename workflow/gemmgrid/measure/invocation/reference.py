"""The product in float64 or complex128, whole columns of it or a few rows, without the cell's BLAS.

`rows` sums with NumPy's own loops (einsum without optimisation calls no BLAS), so a BLAS that is
wrong cannot confirm itself. `times` multiplies by a few vectors and uses NumPy's BLAS for speed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmgrid.measure.invocation.operands import Operands

BLOCK = 1 << 21
"""Elements converted to float64 at a time: the check needs 16 to 32 MiB, not a second operand."""

UNIT = 2.0**-53
"""Squares this far above the smallest normal number have lost nothing to underflow."""

Rounding = Callable[[np.ndarray], np.ndarray]


@dataclass
class Product:
    """A stack of products: op(A) (b×m×k), op(B) (b×k×n), C0 (b×m×n or None).

    gemv is (m×k)·(k×1) and dot (1×k)·(k×1), and without a batch b is 1, so that one check serves
    all routines.
    """

    A: np.ndarray
    B: np.ndarray
    C0: np.ndarray | None
    alpha: float
    beta: float

    @property
    def wide(self) -> np.dtype:
        return np.dtype("complex128" if self.A.dtype.kind == "c" else "float64")

    @property
    def shape(self) -> tuple[int, int, int]:
        """Products in the stack, rows and columns of a result."""
        return self.A.shape[0], self.A.shape[1], self.B.shape[2]

    def part(self, chosen: slice) -> Product:
        """Some of the stack."""
        C0 = None if self.C0 is None else self.C0[chosen]
        return Product(self.A[chosen], self.B[chosen], C0, self.alpha, self.beta)

    def rows(self, index: int, chosen: Any, rounding: Rounding | None = None) -> np.ndarray:
        """Rows of one exact result, operands rounded first where `rounding` is given."""
        C0 = None if self.C0 is None else self.C0[index][chosen]
        return self._exact(self.A[index][chosen], self.B[index], C0, rounding)

    def columns(self, index: int, chosen: Any) -> np.ndarray:
        """Columns of one exact result."""
        C0 = None if self.C0 is None else self.C0[index][:, chosen]
        return self._exact(self.A[index], self.B[index][:, chosen], C0, None)

    def times(self, vectors: np.ndarray) -> np.ndarray:
        """The exact results times n×s `vectors`, never formed: alpha A (B V) + beta C0 V."""
        product = self.alpha * matmul_blocked(self.A, matmul_blocked(self.B, vectors))
        if self.C0 is not None:
            product += self.beta * matmul_blocked(self.C0, vectors)
        return product

    def norms(self) -> tuple[np.ndarray, np.ndarray]:
        """Norms of A's rows over sqrt(k), b×m, and of B's columns, b×n.

        An element of a product of independent random operands is about |A_i| |B_j| / sqrt(k) large.
        """
        return norms(self.A, 2) / np.sqrt(self.A.shape[2]), norms(self.B, 1)

    def _exact(
        self, A: np.ndarray, B: np.ndarray, C0: np.ndarray | None, rounding: Rounding | None
    ) -> np.ndarray:
        rounded = rounding or (lambda values: values)
        result = np.zeros((A.shape[0], B.shape[1]), self.wide)
        step = max(1, BLOCK // max(A.shape[0], B.shape[1]))
        for start in range(0, A.shape[1], step):
            left = rounded(A[:, start : start + step]).astype(self.wide)
            right = rounded(B[start : start + step]).astype(self.wide)
            result += np.einsum("ik,kj->ij", left, right)
        result *= self.alpha
        return result if C0 is None else result + self.beta * C0.astype(self.wide)


def stack_of(operands: Operands) -> Product:
    """The products of a cell."""
    options = operands.cell.options
    A, B, C0 = operands.A, operands.B, operands.C0
    if operands.cell.routine == "dot":
        A, B = A[np.newaxis, :], B[:, np.newaxis]
    elif operands.cell.routine == "gemv":
        A, B = _op(A, options.trans[0]), B[:, np.newaxis]
        C0 = None if C0 is None else C0[:, np.newaxis]
    else:
        A, B = _op(A, options.trans[0]), _op(B, options.trans[1])
    if options.batch == 1:
        A, B = A[np.newaxis], B[np.newaxis]
        C0 = None if C0 is None else C0[np.newaxis]
    return Product(A, B, C0, options.alpha, options.beta)


def matmul_blocked(matrices: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """matrices (b×m×n) @ vectors (n×s, or b×n×s) in the vectors' precision, converted in blocks."""
    if matrices.dtype == vectors.dtype:
        return np.matmul(matrices, vectors)
    result = np.empty((*matrices.shape[:2], vectors.shape[-1]), vectors.dtype)
    step = max(1, BLOCK // matrices[0].shape[1] // matrices.shape[0])
    for start in range(0, matrices.shape[1], step):
        block = matrices[:, start : start + step].astype(vectors.dtype)
        np.matmul(block, vectors, out=result[:, start : start + step])
    return result


def norms(matrices: np.ndarray, axis: int) -> np.ndarray:
    """Euclidean norms along an axis of a b×m×n stack, in float64, of numbers of any exponent."""
    sums = _squares(matrices, axis, 1.0)
    if np.isfinite(sums).all() and sums.min() > np.finfo(np.float64).tiny / UNIT:
        return np.sqrt(sums)
    # Squares overflowed or vanished: once more in units of the largest element.
    largest = max(float(np.abs(one).max()) for one in matrices) or 1.0
    return largest * np.sqrt(_squares(matrices, axis, largest))


def _squares(matrices: np.ndarray, axis: int, scale: float) -> np.ndarray:
    """Sums of squared magnitudes over `scale`, block by block."""
    sums = np.zeros((matrices.shape[0], matrices.shape[3 - axis]))
    step = max(1, BLOCK // matrices.shape[2] // matrices.shape[0])
    for start in range(0, matrices.shape[1], step):
        with np.errstate(over="ignore", under="ignore"):
            part = (np.abs(matrices[:, start : start + step]).astype(np.float64) / scale) ** 2
        if axis == 2:
            sums[:, start : start + step] = part.sum(axis=2)
        else:
            sums += part.sum(axis=1)
    return sums


def _op(matrix: np.ndarray, letter: str) -> np.ndarray:
    if letter == "n":
        return matrix
    swapped = np.swapaxes(matrix, -1, -2)
    return swapped if letter == "t" else swapped.conj()
