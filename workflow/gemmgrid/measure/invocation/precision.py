"""Roundings, unit roundoffs and error bounds; and which precision a result was computed in.

A float32 product that ran as TF32 or bfloat16 is not wrong by accident: it equals the product of
operands rounded to that format. So a reduced mode is named only when the result fits it.
"""

from __future__ import annotations

import numpy as np

from gemmgrid.measure.invocation.reference import Product, Rounding

UNIT_ROUNDOFF = {
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
    "float32": 2.0**-24,
    "float64": 2.0**-53,
    "complex64": 2.0**-24,
    "complex128": 2.0**-53,
}
_SMALLEST = {"float16": 2.0**-24, "bfloat16": 2.0**-133}
"""Smallest number above zero of the types whose sums are float32."""
SAFETY = 8.0
"""Bounds are this many times the error that random roundings make; measured errors stay under 1."""
FIT = 0.25
"""A mode explains a result when it removes all but this share of the error."""


def sums_bound(dtype: str, depth: int) -> float:
    """Largest error of the sums of a correct product, relative to what they grow to.

    Sums of k products in arithmetic with unit roundoff u err by about u sqrt(k) of the size of the
    partial sums when roundings are random (Higham and Mary, A New Approach to Probabilistic
    Rounding Error Analysis, 2019). 16-bit types are held to float32 sums: the BLAS libraries,
    cuBLAS, oneDNN and MLX all promise those.
    """
    return float(SAFETY * UNIT_ROUNDOFF[_sums(dtype)] * np.sqrt(max(depth, 16)))


def rounding_of(dtype: str) -> float:
    """Largest error, relative to an element's exact value, of rounding its sum to the dtype."""
    return UNIT_ROUNDOFF[dtype] if _sums(dtype) != dtype else 0.0


def underflow(dtype: str, depth: int) -> float:
    """Largest absolute error where products or the result are too small for normal numbers: some
    units flush those of the sums to zero, and the result has the dtype's own smallest steps."""
    return depth * float(np.finfo(_sums(dtype)).tiny) + _SMALLEST.get(dtype, 0.0)


def bound(dtype: str, depth: int) -> float:
    """Largest relative error that a correct product of random operands may have."""
    return sums_bound(dtype, depth) + rounding_of(dtype)


def _sums(dtype: str) -> str:
    return "float32" if dtype in _SMALLEST else dtype


def narrow_bound(dtype: str, depth: int) -> float:
    """The bound when the sums are rounded to `dtype` too, 16 bits included."""
    return float(SAFETY * UNIT_ROUNDOFF[dtype] * np.sqrt(max(depth, 16)))


def explain(
    product: Product, index: int, chosen: np.ndarray, seen: np.ndarray, error: float, dtype: str
) -> str | None:
    """Name of the reduced precision that explains rows `chosen` of one result, or None.

    It does when the rows equal the product of operands rounded to it, or when every element is a
    number of that precision and the error is what its arithmetic makes.

    seen   the rows, rows×n, in the cell's dtype
    error  their error against the exact rows, relative to the size of the result
    """
    depth = product.A.shape[2]
    if not np.isfinite(error):
        return None
    if dtype in ("float16", "bfloat16"):
        return f"{dtype} sums" if error <= narrow_bound(dtype, depth) else None
    exact = product.rows(index, chosen)
    narrow = exact.astype(seen.dtype)
    for name, (rounding, arithmetic) in _MODES[dtype].items():
        plausible = arithmetic is not None and error <= narrow_bound(arithmetic, depth)
        # Small integers are numbers of every precision: they tell nothing.
        telling = plausible and not np.array_equal(rounding(narrow), narrow)
        if telling and np.array_equal(rounding(seen), seen):
            return name
    size = np.linalg.norm(exact) or 1.0
    for name, (rounding, _) in _MODES[dtype].items():
        misfit = np.linalg.norm(product.rows(index, chosen, rounding) - seen) / size
        if misfit <= max(FIT * error, bound(dtype, depth)):
            return name
    return None


def _keep_bits(bits: int, nearest: bool) -> Rounding:
    """Round float32 values to that many explicit mantissa bits (complex64: each part)."""
    dropped = np.uint32(23 - bits)

    def rounded(values: np.ndarray) -> np.ndarray:
        copy = np.ascontiguousarray(values)
        if copy is values:
            copy = values.copy()
        raw = copy.view(np.uint32)
        if nearest:
            raw += (np.uint32(1) << (dropped - 1)) - 1 + ((raw >> dropped) & np.uint32(1))
        raw &= ~((np.uint32(1) << dropped) - np.uint32(1))
        return copy

    return rounded


def _through(narrow: str) -> Rounding:
    return lambda values: values.astype(narrow).astype(values.dtype)


def _float16(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind == "c":
        parts = np.ascontiguousarray(values).view(values.real.dtype)
        return parts.astype("float16").astype(parts.dtype).view(values.dtype)
    return values.astype("float16").astype(values.dtype)


_SINGLE: dict[str, tuple[Rounding, str | None]] = {
    "bfloat16": (_keep_bits(7, nearest=True), "bfloat16"),
    "bfloat16 (truncated)": (_keep_bits(7, nearest=False), None),
    "tf32": (_keep_bits(10, nearest=True), None),
    "tf32 (truncated)": (_keep_bits(10, nearest=False), None),
    "float16": (_float16, "float16"),
}
_MODES: dict[str, dict[str, tuple[Rounding, str | None]]] = {
    "float32": _SINGLE,
    "complex64": _SINGLE,
    "float64": {"float32": (_through("float32"), "float32")},
    "complex128": {"complex64": (_through("complex64"), "complex64")},
}
"""Per dtype: a precision it may be computed in, its rounding, and the arithmetic of its sums.

TF32 stands before float16: both keep ten bits, so operands near 1 cannot tell them apart; float16
is named when the result too is made of float16 numbers.
"""
