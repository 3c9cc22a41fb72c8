"""Where the operands of a product lie in this process's memory, whatever library holds them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gemmgrid.measure.dispatch.hidden import Memory

INPUTS = ("A", "B", "C", "C0", "x", "y", "P", "Q")


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
