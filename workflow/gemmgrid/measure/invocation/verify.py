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
from gemmgrid.measure.invocation.precision import bound, explain, rounding_of, sums_bound, underflow
from gemmgrid.measure.invocation.reference import BLOCK, Product, matmul_blocked, norms, stack_of

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
    verdict = Verdict(
        True, None, bound(cell.dtype, cell.depth), "freivalds+exact", 0, 2.0**-VECTORS
    )
    problem = _obvious(operands, result)
    if problem:
        verdict.ok, (verdict.problem, verdict.detail) = False, problem
        return verdict
    generator = np.random.default_rng([seed, 77])
    check = _Check(stack_of(operands), result, verdict, generator, cell.dtype)
    exact = _choose(check.product.shape[0], SLICES - 2, generator)
    verdict.rel_error = max(check.exactly(int(index)) for index in exact)
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
    """The check of a stack of products; findings go into the verdict.

    What an element may be off by has three parts. The error of its sums is relative to what the
    partial sums grow to: a random walk of the operands' norms, and the exact value, which is larger
    where operands go together (A times its own transpose). The result's own rounding is relative to
    the exact value alone. And the smallest numbers have an absolute step.
    """

    def __init__(
        self,
        product: Product,
        result: np.ndarray,
        verdict: Verdict,
        generator: np.random.Generator,
        dtype: str,
    ) -> None:
        self.product, self.result = product, result.reshape(product.shape)
        self.verdict, self.generator, self.dtype = verdict, generator, dtype
        self.row_norms, self.column_norms = product.norms()
        depth = product.A.shape[2]
        self.sums, self.rounding = sums_bound(dtype, depth), rounding_of(dtype)
        self.step = underflow(dtype, depth)

    def exactly(self, index: int) -> float:
        """Compare rows and columns of one product element by element; returns the error."""
        rows = _choose(self.product.shape[1], EXACT, self.generator)
        columns = _choose(self.product.shape[2], EXACT, self.generator)
        self.verdict.rows += len(rows) + len(columns)
        found: list[float] = []
        for exact, place in (
            (self.product.rows(index, rows), (rows, slice(None))),
            (self.product.columns(index, columns), (slice(None), columns)),
        ):
            seen = self.result[index][place]
            errors, values = np.abs(exact - seen), np.abs(exact)
            sizes = np.hypot(self._sizes(index, *place), values)
            error = _relative(errors, sizes)
            own = self.rounding * values + self.step
            if not found and _relative(errors, self.sums * sizes + own) > 1:
                self._explain(index, rows, seen, error)
            if (errors > SPREAD * self.sums * sizes + own).any():
                worst = float((errors / np.maximum(sizes, self.step)).max())
                self._wrong(f"an element is off by {worst:.2g} of its size")
            found.append(error)
        return max(found)

    def _explain(self, index: int, rows: np.ndarray, seen: np.ndarray, error: float) -> None:
        """Take a reduced precision that explains the error for the bound from here on."""
        narrow = seen.astype(self.product.A.dtype)
        named = explain(self.product, index, rows, narrow, error, self.dtype)
        if named is None:
            self._wrong(f"relative error {error:.2g}, right is at most {self.verdict.bound:.2g}")
        else:
            self.verdict.precision, self.sums = named, 4 * error

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
            seen = matmul_blocked(self.result[part], vectors)
            difference = seen - product.times(vectors)
            columns = norms(self.column_norms[part, np.newaxis], 2)
            # Norms of the result's rows, as its products with ±1 show them, stand for those of the
            # exact ones: a row that is wrong by E allows itself a small part of E.
            values = norms(seen, 2) / np.sqrt(vectors.shape[1])
            sizes = np.hypot(abs(product.alpha) * self.row_norms[part] * columns, values)
            if product.C0 is not None:
                sizes = np.hypot(sizes, abs(product.beta) * norms(product.C0, 2))
            allowed = self.sums * sizes + self.rounding * values + self.step * np.sqrt(width)
            bad = np.argwhere(np.abs(difference).max(axis=2) > SPREAD * allowed)
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


def _relative(errors: np.ndarray, sizes: np.ndarray) -> float:
    """Errors over sizes in the Frobenius norm; 0 over 0 is 0."""
    largest = sizes.max(initial=0.0)
    if largest == 0:
        return float("inf") if errors.any() else 0.0
    return float(np.linalg.norm(errors / largest) / np.linalg.norm(sizes / largest))


def _choose(length: int, extra: int, generator: np.random.Generator) -> np.ndarray:
    """The first, the last and `extra` other indices, sorted, none twice."""
    others = generator.integers(0, length, extra)
    return np.unique(np.concatenate([[0, length - 1], others]))


def _first(result: np.ndarray) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(int(np.isnan(result).argmax()), result.shape))
