"""The operands of a watched product, and where they lie, whatever library holds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from gemmgrid.measure.dispatch.hidden_work import Memory
from gemmgrid.measure.invocation import operands
from gemmgrid.records.cell import Cell

RANDOM_BYTES = 8 << 20
"""Operands up to this size are the timed ones, value for value."""
INPUTS = ("A", "B", "C", "C0", "x", "y", "P", "Q")


def make(cell: Cell, seed: int) -> operands.Operands:
    """Operands as the timed processes have them; in large ones every row is the same.

    Shapes, strides, dtype and alignment decide which code runs, values do not, and drawing 4096²
    of them takes longer than all the watching.
    """
    if cell.operand_bytes <= RANDOM_BYTES or cell.options.inputs == "zeros":
        return operands.make(cell, seed)
    blank = operands.make(replace(cell, options=replace(cell.options, inputs="zeros")), seed)
    generator = np.random.default_rng(seed)
    for array in (blank.A, blank.B, blank.C0):
        if array is not None:
            array[...] = generator.integers(-4, 4, array.shape[-1:], endpoint=True)
    return replace(blank, cell=cell)


def memories(
    names: Mapping[str, Any], addresses: Mapping[str, int] | None = None
) -> dict[str, Memory]:
    """The memory of every operand among `names`; {} unless all operands can be located.

    addresses   where an adapter says its operands lie, for arrays that do not tell themselves
    """
    found = {}
    told = dict(addresses or {})
    # Adapters number operands A, B, C; in the statement of a vector product they are x and y.
    if "x" in names:
        vector = "B" if "A" in names else "A"
        told.setdefault("x", told.get(vector, 0))
        if vector == "A":
            told.setdefault("y", told.get("B", 0))
    for name in INPUTS:
        if name not in names:
            continue
        memory = memory_of(names[name], told.get(name, 0))
        if memory is None:
            return {}
        found[name] = memory
    return found


def memory_of(value: Any, address: int = 0) -> Memory | None:
    """Where an array lies; None where neither it nor `address` tells."""
    array = getattr(value, "array", value)  # a cblas pointer keeps its array
    if isinstance(array, np.ndarray):
        return _numpy_memory(array)
    storage = getattr(value, "untyped_storage", None)
    if storage is not None and value.device.type == "cpu":
        data = storage()
        return Memory(data.data_ptr(), data.data_ptr() + data.nbytes())
    size = getattr(value, "nbytes", None)
    if address and isinstance(size, int):
        return Memory(address, address + size)
    return None


def _numpy_memory(array: np.ndarray) -> Memory:
    """From the lowest to past the highest byte, whatever the signs of the strides."""
    start = end = array.ctypes.data
    for size, stride in zip(array.shape, array.strides, strict=True):
        reach = (size - 1) * stride
        if reach < 0:
            start += reach
        else:
            end += reach
    return Memory(start, end + array.itemsize)
