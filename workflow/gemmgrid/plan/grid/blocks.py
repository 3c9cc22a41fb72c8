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
    return None
