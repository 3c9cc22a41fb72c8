"""Shapes as people write them: `512`, `"512×512×64"`, `512x512x64`, `[512, 512, 64]`."""

from __future__ import annotations

import re
from typing import Any

from gemmgrid.records.cell import DIMENSIONS

_TEXT = re.compile(r"\s*[0-9]+(?:\s*[x×X*]\s*[0-9]+)*\s*")

LARGEST = 10**12
"""No machine holds more; it also keeps the names of files short."""

WRITTEN = {
    "gemm": "n for a square, or m×n×k",
    "gemv": "n for a square A, or m×n",
    "dot": "n",
}
"""How a shape is written for each routine."""


def parse_shape(routine: str, value: Any) -> tuple[int, ...]:
    """The dimensions of a cell: gemm (m, n, k), gemv (m, n), dot (n,).

    A single size means a square problem. ValueError says what the routine takes.
    """
    sizes = _sizes(value)
    wanted = DIMENSIONS[routine]
    if len(sizes) == 1:
        sizes = sizes * wanted
    if len(sizes) != wanted:
        raise ValueError(
            f"{routine} takes {wanted} dimension{'s' if wanted > 1 else ''}, and {value!r} has "
            f"{len(sizes)}. Allowed: {WRITTEN[routine]}."
        )
    if min(sizes) < 1:
        raise ValueError(f"every dimension is at least 1, and {value!r} has {min(sizes)}")
    if max(sizes) > LARGEST:
        raise ValueError(f"a dimension is at most {LARGEST}, and {value!r} has {max(sizes)}")
    return sizes


def _sizes(value: Any) -> tuple[int, ...]:
    if isinstance(value, str):
        if not _TEXT.fullmatch(value):
            raise ValueError(
                f"{value!r} is not a shape. Allowed: 512, '512×512×64', '512x512x64', "
                "[512, 512, 64]."
            )
        return tuple(int(size) for size in re.findall(r"[0-9]+", value))
    if isinstance(value, list):
        return tuple(int(size) for size in value)
    return (int(value),)
