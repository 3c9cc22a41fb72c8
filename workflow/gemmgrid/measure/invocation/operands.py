"""The operands of a cell: seeded, distinct, aligned to 64 bytes, in the cell's layout, pre-faulted.

Where arrays lie moves small products more than tools differ (a 128³ float32 product by 60 %), so
placement is decided here and never left to the allocator, and the addresses are recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from gemmgrid.records.cell import Cell

ALIGNMENT = 64
"""Bytes: a cache line, and the widest vector register in use."""
MISPLACEMENT = 16
"""Bytes past a 64-byte boundary in `.unaligned` cells: what malloc guarantees, and no more."""
PAGE = 4096
CHUNK = 1 << 20
"""Random values drawn at a time, so that drawing float64 needs no second copy of the operand."""


@dataclass
class Operands:
    """A, B and C (None for dot), and C0: the values C has before the call, where beta is not 0.

    bfloat16 operands are float32 arrays whose values are exact in bfloat16: NumPy has no bfloat16.
    """

    cell: Cell
    seed: int
    A: np.ndarray
    B: np.ndarray
    C: np.ndarray | None
    C0: np.ndarray | None

    def describe(self) -> dict[str, Any]:
        """Seed, and address, alignment, strides in bytes of each array, for the record."""
        arrays = {"A": self.A, "B": self.B, "C": self.C}
        described = {name: place(array) for name, array in arrays.items() if array is not None}
        return {"seed": self.seed, **described}


def place(array: np.ndarray) -> dict[str, Any]:
    """Address, the largest power of two (up to a page) that divides it, and strides in bytes."""
    address = array.ctypes.data
    alignment = min(address & -address, PAGE) if address else PAGE
    return {"address": hex(address), "alignment": alignment, "strides": list(array.strides)}


def make(cell: Cell, seed: int) -> Operands:
    """Operands of `cell`, the same for the same seed on every machine."""
    shapes = cell.operand_shapes
    generators = [np.random.default_rng([seed, stream]) for stream in range(3)]
    A = _filled(cell, shapes["A"], generators[0])
    B = A if cell.options.reuse else _filled(cell, shapes["B"], generators[1])
    if cell.routine == "dot":
        return Operands(cell, seed, A, B, None, None)
    C, C0 = allocate(cell, shapes["C"]), None
    C[...] = 0
    if cell.options.beta != 0:
        C0 = _filled(cell, shapes["C"], generators[2])
        C[...] = C0
    return Operands(cell, seed, A, B, C, C0)


def reordered(operands: Operands) -> Operands:
    """New operands with other products at little cost: the same values in reversed order.

    Rows of A and columns of B come back to front (for vectors, the elements of one of them), so a
    library that returns a remembered result is wrong nearly everywhere.
    """
    A, B = operands.A, operands.B
    return _copied(
        operands, A[..., ::-1, :] if A.ndim > 1 else A[::-1], B[..., ::-1] if B.ndim > 1 else B
    )


def duplicate(operands: Operands) -> Operands:
    """The same values in other memory."""
    return _copied(operands, operands.A, operands.B)


def _copied(operands: Operands, A: np.ndarray, B: np.ndarray) -> Operands:
    """Operands of the same cell with these values, before any call."""
    cell, shapes = operands.cell, operands.cell.operand_shapes
    arrays = {"A": allocate(cell, shapes["A"])}
    arrays["A"][...] = A
    arrays["B"] = arrays["A"] if cell.options.reuse else allocate(cell, shapes["B"])
    if not cell.options.reuse:
        arrays["B"][...] = B
    C = None if operands.C is None else allocate(cell, shapes["C"])
    if C is not None:
        C[...] = 0 if operands.C0 is None else operands.C0
    return Operands(cell, operands.seed, arrays["A"], arrays["B"], C, operands.C0)


def storage_dtype(dtype: str) -> np.dtype[Any]:
    """The NumPy dtype that carries the values: float32 for bfloat16."""
    return np.dtype("float32" if dtype == "bfloat16" else dtype)


def allocate(cell: Cell, shape: Sequence[int]) -> np.ndarray:
    """An array of `shape` placed and laid out as the cell asks, contents undefined.

    A stack has the batch as its first axis. In each matrix the rows (layout F: the columns) are
    `pad` elements longer than shown; a stack's matrices follow one another with their padding.
    """
    options, dtype = cell.options, storage_dtype(cell.dtype)
    matrix = len(shape) == 2
    stored = list(shape)
    if matrix:
        if options.layout == "F":
            stored.reverse()
        stored[1] += options.pad
    if options.batch > 1:
        stored.insert(0, options.batch)
    offset = MISPLACEMENT if options.unaligned else 0
    buffer = np.empty(prod(stored) * dtype.itemsize + PAGE + MISPLACEMENT, np.uint8)
    start = -buffer.ctypes.data % PAGE + offset
    array = buffer[start : start + prod(stored) * dtype.itemsize].view(dtype).reshape(stored)
    if matrix and options.pad:
        array[..., -options.pad :] = 0
        array = array[..., : -options.pad]
    return np.swapaxes(array, -1, -2) if matrix and options.layout == "F" else array


def round_to_bfloat16(values: np.ndarray) -> None:
    """Round float32 values in place to the nearest bfloat16, ties to even."""
    bits = values.view(np.uint32)
    bits += np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    bits &= np.uint32(0xFFFF0000)


def _filled(cell: Cell, shape: Sequence[int], generator: np.random.Generator) -> np.ndarray:
    array = allocate(cell, shape)
    if cell.options.inputs == "zeros":
        array[...] = 0
        return array
    # Row by row in logical order, in chunks, so that neither layout nor padding changes the values.
    rows = array.reshape(-1, array.shape[-1]) if array.flags.c_contiguous else None
    blocks = [rows] if rows is not None else list(array) if array.ndim == 3 else [array]
    for block in blocks:
        width = block.shape[-1] if block.ndim > 1 else 1
        step = max(1, CHUNK // width)
        for start in range(0, len(block), step):
            part = block[start : start + step]
            part[...] = _draw(cell, part.shape, generator)
    return array


def _draw(cell: Cell, shape: tuple[int, ...], generator: np.random.Generator) -> np.ndarray:
    real = np.dtype("float64" if cell.dtype in ("float64", "complex128") else "float32")
    parts = 2 if cell.is_complex else 1
    if cell.options.inputs == "integers":
        values = generator.integers(-4, 4, (*shape, parts), np.int8, endpoint=True).astype(real)
    else:
        values = generator.standard_normal((*shape, parts), real)
    if cell.dtype == "bfloat16":
        round_to_bfloat16(values)
    if cell.is_complex:
        return values.view(np.result_type(real, 1j))[..., 0]
    return values[..., 0].astype(storage_dtype(cell.dtype), copy=False)
