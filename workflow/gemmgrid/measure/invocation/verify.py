"""Is the result the product? Against float64: everywhere by Freivalds' check, a few rows exactly.

Freivalds (Probabilistic Machines Can Use Less Running Time, 1977): if C is not A·B, then C·x and
A·(B·x) differ for at least half of all x of ±1. With `VECTORS` of them an error larger than the
bound allows escapes with probability 2**-VECTORS at most, at the cost of a few matrix-vector
products. The first, the last and some other rows and columns are computed exactly besides: from
them come the relative error and the precision that the result was really computed in.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gemmgrid.measure.invocation.operands import Operands
from gemmgrid.measure.invocation.precision import bound, explain
from gemmgrid.measure.invocation.reference import BLOCK, Product, matmul_blocked, stack_of

VECTORS = 20
EXACT = 2
"""Random rows and columns that are computed exactly beside the first and the last."""
SPREAD = 6.0
"""Standard deviations that a sum of random errors over one row may reach: 2e-9 per row."""
SLICES = 3
"""Products of a stack that are checked exactly: the first, the last and random ones between."""


@dataclass
class Verdict:
    """What the check found; `ok` False makes the cell `wrong`."""

    ok: bool
    rel_error: float | None
    bound: float
    method: str
    rows: int
    miss_probability: float
    problem: str | None = None
    detail: str | None = None
    precision: str | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def verify(operands: Operands, result: np.ndarray, seed: int) -> Verdict:
    """Compare a result with its operands.

    result  as the call left it on the host, m×n (gemv: (m,), dot: ()), batch first; float32 for
            bfloat16
    """
    cell = operands.cell
    limit = bound(cell.dtype, cell.depth)
    verdict = Verdict(True, None, limit, "freivalds+exact", 0, 2.0**-VECTORS)
    problem = _obvious(operands, result)
    if problem:
        verdict.ok, (verdict.problem, verdict.detail) = False, problem
        return verdict
    check = _Check(stack_of(operands), result, verdict, np.random.default_rng([seed, 77]))
    exact = _choose(check.product.shape[0], SLICES - 2, check.generator)
    verdict.rel_error = max(check.exactly(int(index), cell.dtype) for index in exact)
    if verdict.ok:
        check.everywhere()
    if verdict.ok and verdict.precision is None:
        verdict.precision = cell.dtype
    return verdict


def _obvious(operands: Operands, result: np.ndarray) -> tuple[str, str] | None:
    cell = operands.cell
    shape = cell.operand_shapes["C"]
    expected = (cell.options.batch, *shape) if cell.options.batch > 1 else shape
    if result.shape != expected:
        return "error", f"the result has shape {result.shape}, not {expected}"
    if np.isnan(result).any():
        count = int(np.isnan(result).sum())
        return "nan", f"{count} of {result.size} elements are NaN, the first at {_first(result)}"
    if not np.isfinite(result).all():
        return "inf", f"{int(np.isinf(result).sum())} of {result.size} elements are infinite"
    if cell.options.inputs != "zeros" and result.size > 1 and not result.any():
        return "zeros", "every element is zero"
    return None


class _Check:
    """The check of a stack of products; findings go into the verdict."""

    def __init__(
        self,
        product: Product,
        result: np.ndarray,
        verdict: Verdict,
        generator: np.random.Generator,
    ) -> None:
        self.product, self.result = product, result.reshape(product.shape)
        self.verdict, self.generator = verdict, generator
        self.row_norms, self.column_norms = product.norms()
        self.allowed = verdict.bound

    def exactly(self, index: int, dtype: str) -> float:
        """Compare rows and columns of one product element by element; returns the error."""
        rows = _choose(self.product.shape[1], EXACT, self.generator)
        columns = _choose(self.product.shape[2], EXACT, self.generator)
        result = self.result[index]
        row_errors = np.abs(self.product.rows(index, rows) - result[rows])
        row_sizes = self._sizes(index, rows, slice(None))
        column_errors = np.abs(self.product.columns(index, columns) - result[:, columns])
        column_sizes = self._sizes(index, slice(None), columns)
        self.verdict.rows += len(rows) + len(columns)
        error = _relative(row_errors, row_sizes)
        if error > self.allowed:
            narrow = result[rows].astype(self.product.A.dtype)
            named = explain(self.product, index, rows, narrow, error, dtype)
            if named is None:
                self._wrong(f"relative error {error:.2g}, right is at most {self.allowed:.2g}")
            else:
                self.verdict.precision, self.allowed = named, 4 * error
        worst = max(
            _relative(row_errors, row_sizes, elementwise=True),
            _relative(column_errors, column_sizes, elementwise=True),
        )
        if worst > SPREAD * self.allowed:
            self._wrong(f"an element is off by {worst:.2g} of its size")
        return max(error, _relative(column_errors, column_sizes))

    def everywhere(self) -> None:
        """Freivalds' check of all elements of all products."""
        stack, _, width = self.product.shape
        if width == 1:
            vectors = np.ones((1, 1), self.product.wide)
        else:
            signs = self.generator.choice([-1.0, 1.0], (width, VECTORS))
            vectors = signs.astype(self.product.wide)
        step = max(1, BLOCK // max(self.product.A[0].size, self.product.B[0].size))
        for start in range(0, stack, step):
            part = slice(start, start + step)
            product = self.product.part(part)
            difference = matmul_blocked(self.result[part], vectors) - product.times(vectors)
            columns = np.linalg.norm(self.column_norms[part], axis=1)
            sizes = abs(product.alpha) * self.row_norms[part] * columns[:, np.newaxis]
            if product.C0 is not None:
                initial = np.linalg.norm(product.C0, axis=2)
                sizes = np.hypot(sizes, abs(product.beta) * initial)
            bad = np.argwhere(np.abs(difference).max(axis=2) > SPREAD * self.allowed * sizes)
            if len(bad):
                index, row = bad[0]
                where = f" of product {start + index}" if stack > 1 else ""
                self._wrong(f"{len(bad)} rows are wrong, the first is row {row}{where}")
                return

    def _sizes(
        self, index: int, rows: np.ndarray | slice, columns: np.ndarray | slice
    ) -> np.ndarray:
        outer = np.outer(self.row_norms[index][rows], self.column_norms[index][columns])
        sizes = abs(self.product.alpha) * outer
        if self.product.C0 is not None:
            initial = np.abs(self.product.C0[index][rows][:, columns])
            sizes = np.hypot(sizes, abs(self.product.beta) * initial)
        return sizes

    def _wrong(self, detail: str) -> None:
        if self.verdict.ok:
            self.verdict.ok, self.verdict.problem, self.verdict.detail = False, "error", detail


def _relative(errors: np.ndarray, sizes: np.ndarray, elementwise: bool = False) -> float:
    """Errors over sizes, in the Frobenius norm or of the worst element; 0 over 0 is 0."""
    if elementwise:
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.where(errors > 0, errors / sizes, 0.0)
        return float(ratios.max(initial=0.0))
    off, size = float(np.linalg.norm(errors)), float(np.linalg.norm(sizes))
    return off / size if size else (0.0 if off == 0 else float("inf"))


def _choose(length: int, extra: int, generator: np.random.Generator) -> np.ndarray:
    """The first, the last and `extra` other indices, sorted, none twice."""
    others = generator.integers(0, length, extra)
    return np.unique(np.concatenate([[0, length - 1], others]))


def _first(result: np.ndarray) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(int(np.isnan(result).argmax()), result.shape))
