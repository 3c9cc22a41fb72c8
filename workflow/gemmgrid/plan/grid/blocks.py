"""Blocks of a grid: one routine, and the shapes, dtypes, threads and options to multiply out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from gemmgrid.plan.config.sources import Key, Problems
from gemmgrid.plan.grid.shapes import parse_shape
from gemmgrid.records.cell import Cell, Options

_FLOATS = ("alpha", "beta")
_SINGLE, _DOUBLE = (2.0**-126, 2.0**127), (2.0**-1022, 2.0**1023)
_RANGES = {
    "float16": (2.0**-14, 2.0**15),
    **dict.fromkeys(("bfloat16", "float32", "complex64"), _SINGLE),
    **dict.fromkeys(("float64", "complex128"), _DOUBLE),
}
"""Smallest normal number and largest power of two (IEEE 754-2019; bfloat16 as float32)."""


@dataclass(frozen=True)
class Block:
    """One entry of `grid`, ready to be multiplied out; `key` is its place for messages."""

    key: Key
    routine: str
    backends: str | list[str]
    dtypes: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    threads: tuple[int | str, ...]
    options: tuple[Options, ...]

    def cells(self, threads: Sequence[int]) -> Iterator[Cell]:
        """Every cell of the block for these thread counts, in the order of the config."""
        for dtype, shape, count, options in product(
            self.dtypes, self.shapes, threads, self.options
        ):
            yield Cell(self.routine, dtype, shape, count, options)


def read_block(entry: Mapping[str, Any], key: Key, problems: Problems) -> Block | None:
    """The block of one entry that fits the schema; notes what cannot be, and returns None then."""
    routine = entry["routine"]
    before = len(problems.texts)
    shapes = []
    for index, value in enumerate(listed(entry["shapes"])):
        try:
            shapes.append(parse_shape(routine, value))
        except ValueError as error:
            place = (
                (*key, "shapes", index) if isinstance(entry["shapes"], list) else (*key, "shapes")
            )
            problems.add(place, str(error), value)
    block = Block(
        key=key,
        routine=routine,
        backends=entry.get("backends", "auto"),
        dtypes=tuple(dict.fromkeys(listed(entry.get("dtypes", "float32")))),
        shapes=tuple(dict.fromkeys(shapes)),
        threads=tuple(dict.fromkeys(listed(entry.get("threads", "all")))),
        options=tuple(dict.fromkeys(_option_sets(routine, entry.get("options", {})))),
    )
    if len(problems.texts) > before:
        return None
    problem = _impossible(block)
    if problem:
        problems.add(key, problem)
        return None
    return block


def listed(value: Any) -> list[Any]:
    """A value, or a list of values, as a list; a mapping counts as one value."""
    return value if isinstance(value, list) else [value]


def _option_sets(routine: str, written: Any) -> Iterator[Options]:
    """Each combination of option values that the mapping, or each mapping of a list, stands for."""
    for mapping in listed(written):
        names = list(mapping)
        for values in product(*(listed(mapping[name]) for name in names)):
            chosen = dict(zip(names, values, strict=True))
            for name in _FLOATS:
                if name in chosen:
                    chosen[name] = float(chosen[name])
            if routine == "gemv" and len(chosen.get("trans", "nn")) == 1:
                chosen["trans"] += "n"  # gemv transposes only its matrix
            yield Options(**chosen)


def _impossible(block: Block) -> str | None:
    """Why some cell of the block cannot exist on any machine; None when all can."""
    for shape, options in product(block.shapes, block.options):
        try:
            Cell(block.routine, block.dtypes[0], shape, 1, options)
        except ValueError as error:
            size = "×".join(map(str, shape))
            shown = json.dumps(options.to_json())
            return f"{block.routine} {size} with options {shown} cannot be: {error}"
    for dtype, shape, options in product(block.dtypes, block.shapes, block.options):
        if problem := _out_of_range(dtype, shape[-1], options.alpha):
            return problem
    return None


def _out_of_range(dtype: str, depth: int, alpha: float) -> str | None:
    """Why a result alpha · A · B would leave no product to judge, or leave the dtype's range.

    Elements of the operands are about 1, so those of the product are about √depth, and seldom
    beyond ten times that; small ones need their bits to be compared.
    """
    if alpha == 0:
        return "alpha is 0, which leaves no product to measure. Allowed: any other number."
    smallest, largest = _RANGES[dtype]
    low, high = smallest * 2**10, largest / (10 * depth**0.5)
    if low <= abs(alpha) <= high:
        return None
    return (
        f"alpha is {alpha:g}, and the result in {dtype} would leave its range. Allowed for sums of "
        f"{depth} products: {low:.2g} to {high:.2g}, or the same with a minus sign."
    )
