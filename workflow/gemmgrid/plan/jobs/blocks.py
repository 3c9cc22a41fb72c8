"""Blocks: the cells that one job measures one after another, and the file that names them.

Here a block is one cell; behind SLURM it is an allocation. results/.plan/blocks.jsonl has a line
for each block of this start: a job finds its own by the block's name.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gemmgrid.plan.grid.expand import PlannedCell
from gemmgrid.plan.jobs.needed import Histories
from gemmgrid.records.context import digest
from gemmgrid.records.files import write_atomically

CELLS_HERE = 50
"""Cells of one job where nothing is sent: with a job for each round of each cell, starting jobs
would take longer than measuring."""


@dataclass(frozen=True)
class Block:
    """Cells of one machine, all under the same environment modules.

    name     a digest of what its runs are for, after the number of its set of modules
    rounds   those in which something is left to measure
    """

    machine: str
    name: str
    cells: tuple[PlannedCell, ...]
    occasions: tuple[str, ...]
    latest: tuple[str | None, ...]
    rounds: tuple[int, ...]

    @property
    def turn(self) -> int:
        """The turn of its first cell in the shuffled grid."""
        return self.cells[0].order

    def line(self) -> dict[str, Any]:
        """The block as its jobs read it."""
        return {
            "block": self.name,
            "machine": self.machine,
            "rounds": list(self.rounds),
            "cells": [
                {
                    "path": cell.path,
                    "spec": cell.document,
                    "order": cell.order,
                    "occasion": occasion,
                    "latest": latest,
                }
                for cell, occasion, latest in zip(
                    self.cells, self.occasions, self.latest, strict=True
                )
            ],
        }


def module_sets(backends: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The distinct sets of environment modules, the empty one first; a rule loads one of them."""
    return list(dict.fromkeys([(), *(backend.modules for backend in backends.values())]))


def divide(
    cells: Iterable[PlannedCell],
    histories: Histories,
    parts: Path,
    sizes: Mapping[str, int],
) -> list[Block]:
    """The cells as blocks, in the order of the shuffled grid.

    parts   folder of the rounds that an interrupted run left: what is there is not measured again
    sizes   cells of a block by machine; CELLS_HERE for a machine that is not there
    """
    plan = histories.plan
    sets = module_sets(plan.backends)
    kept = {file.name for file in parts.glob("*/*/*.json")}
    every = range(1, plan.settings["rounds"] + 1)
    groups: dict[tuple[str, int, bool], list[tuple[PlannedCell, str, set[int]]]] = defaultdict(list)
    for cell in sorted(cells, key=lambda cell: cell.order):
        occasion = histories.occasion(cell)
        left = {n for n in every if part_name(cell.name, occasion, n) not in kept}
        kind = sets.index(plan.backends[cell.backend].modules)
        groups[cell.machine, kind, bool(left)].append((cell, occasion, left))
    blocks = []
    for (machine, kind, _), members in groups.items():
        size = sizes.get(machine, CELLS_HERE)
        for start in range(0, len(members), size):
            chunk = members[start : start + size]
            chosen = tuple(cell for cell, _, _ in chunk)
            occasions = tuple(occasion for _, occasion, _ in chunk)
            missing = {number for _, _, left in chunk for number in left}
            blocks.append(
                Block(
                    machine=machine,
                    name=f"{kind}-{digest(occasions, 16)}",
                    cells=chosen,
                    occasions=occasions,
                    latest=tuple(map(histories.latest_id, chosen)),
                    rounds=tuple(number for number in every if number in missing),
                )
            )
    return sorted(blocks, key=lambda block: block.turn)


def part_name(cell: str, occasion: str, number: int) -> str:
    """The file of one round of one run, as the measuring side keeps it."""
    return f"{cell}.{occasion}.{number}.json"


def write(path: Path, blocks: Iterable[Block]) -> None:
    """Write blocks.jsonl, atomically."""
    lines = (json.dumps(block.line(), separators=(",", ":")) for block in blocks)
    write_atomically(path, "".join(f"{line}\n" for line in lines).encode())


def turns(cells: Iterable[PlannedCell]) -> str:
    """The turns of cells as text, short for whole stretches: `0-41,44`."""
    stretches: list[list[int]] = []
    for turn in sorted(cell.order for cell in cells):
        if stretches and turn == stretches[-1][1] + 1:
            stretches[-1][1] = turn
        else:
            stretches.append([turn, turn])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in stretches)


def of_turns(text: str) -> set[int]:
    """The turns that `turns` wrote."""
    found: set[int] = set()
    for stretch in filter(None, text.split(",")):
        first, _, last = stretch.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found
