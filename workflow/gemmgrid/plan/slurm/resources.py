"""What one cell needs on a node, and how many cells an allocation takes: memory, minutes, sizes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from gemmgrid.plan.config.errors import ConfigError
from gemmgrid.plan.config.machines import FILE, Machine
from gemmgrid.plan.grid.expand import PlannedCell
from gemmgrid.records.cell import Cell

SNAKEMAKE_MB = 400
"""A Snakemake process leads to the cells of an allocation, and the supervisor: 200 MB each."""
LIBRARY_MB = 1000
"""An interpreter with NumPy and a large library such as PyTorch, before any operand."""
SETS = 3
"""Operands of a cell in memory: its own, a second set for the last check, the library's buffers."""
THREAD_MB = 40
"""A BLAS's buffer for each thread: OpenBLAS takes 32 MiB, and packs A and B into it."""
ROTATED_MB = 1074
"""Operands that a `.cold` cell goes through in turn: a gibibyte at most, or two sets."""
EVIDENCE_S, GRACE_S, START_S = 30.0, 5.0, 2.0
"""Beside the budget: the evidence process, and for each process what the supervisor lets pass."""
PLACE_S = 10.0
"""What a cell takes beside its processes: the machine's facts, SLURM's answers, its files."""
LEAST_MIN = 2
"""Minutes that even the shortest cell gets: Snakemake starts before the first one."""
CELLS = 50
"""Cells of one allocation where nothing else is said."""


def memory_mb(cell: Cell, settings: Mapping[str, Any], machine: Machine) -> int:
    """Megabytes to ask SLURM for: the machine's `memory_mb`, or what this cell needs at most."""
    if machine.memory_mb:
        return machine.memory_mb
    operands = SETS * cell.operand_bytes / 1e6
    if cell.options.cold:
        operands += ROTATED_MB
    measured = operands + THREAD_MB * cell.threads + LIBRARY_MB
    return math.ceil(SNAKEMAKE_MB + measured / settings["memory_fraction"])


def minutes(settings: Mapping[str, Any]) -> int:
    """Minutes that one round of one cell takes at most: its budget and what is beside it."""
    rounds, processes = settings["rounds"], settings["invocations"]
    share = math.ceil(processes / rounds)
    seconds = settings["budget_s"] * share / processes + share * (GRACE_S + START_S) + PLACE_S
    seconds += EVIDENCE_S if settings["evidence"] else 0
    return max(LEAST_MIN, math.ceil(seconds / 60))


def block_memory_mb(
    cells: Iterable[PlannedCell], settings: Mapping[str, Any], machine: Machine
) -> int:
    """What an allocation of these cells asks for: as much as the largest of them."""
    return max(memory_mb(one.cell, settings, machine) for one in cells)


def sizes(
    machines: Mapping[str, Machine], settings: Mapping[str, Any], wanted: Any = None
) -> dict[str, int]:
    """How many cells share an allocation, by machine; `wanted` is --config cells_per_allocation."""
    if wanted is not None and (type(wanted) is not int or wanted < 1):
        raise ConfigError(
            [f"--config cells_per_allocation: found {wanted!r}; allowed: a number of at least 1"]
        )
    return {
        name: cells_per_allocation(machine, settings, wanted) for name, machine in machines.items()
    }


def cells_per_allocation(
    machine: Machine, settings: Mapping[str, Any], wanted: int | None = None
) -> int:
    """How many cells share an allocation: as wanted, as long as they fit into `runtime_min`.

    ConfigError where not even one cell fits.
    """
    count = wanted or machine.cells_per_allocation or CELLS
    if machine.runtime_min is None:
        return count
    fitting = machine.runtime_min // minutes(settings)
    if fitting < 1:
        raise ConfigError(
            [
                f"{FILE}, {machine.name}.runtime_min: found {machine.runtime_min}. One cell may "
                f"take {minutes(settings)} minutes (budget.cell_s and what is beside it). Raise "
                "runtime_min, or lower budget.cell_s in the study."
            ]
        )
    return min(count, fitting)


def counted(cells: int) -> str:
    """`1 cell`, `2 cells`."""
    return "1 cell" if cells == 1 else f"{cells} cells"
