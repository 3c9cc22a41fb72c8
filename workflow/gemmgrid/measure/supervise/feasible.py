"""What is known before a cell is measured: is its environment there, and do its operands fit."""

from __future__ import annotations

import shutil

from gemmgrid.measure.machine.this_machine import ThisMachine
from gemmgrid.measure.supervise.request import Request
from gemmgrid.records.cell import Cell
from gemmgrid.system import cgroup

WORKING_SETS = 3
"""Memory a cell needs: its operands, a second set for the last check, and the library's buffers."""
DEVICE_SETS = 2
"""The same on a GPU: the operands, and a second set for the last check."""
INTERPRETER_BYTES = 200 << 20
"""Memory of Python, NumPy and a library before any operand."""
UNKNOWN_CACHE_BYTES = 128 << 20
"""Taken for a cache whose size is not known."""
OUTGROWN = 2
"""Times the caches that the operands of a `.cold` cell fill: what is evicted is not always what was
used longest ago."""
MOST_SETS_BYTES = 4 << 30
"""Memory that they may take, which is past the caches of all machines known (2.3 GB)."""
MOST_SETS = 1 << 16
"""Sets that they may be: more take seconds to make."""
SET_BYTES = 16 << 10
"""Memory of a set beside its values: its arrays begin on pages of their own."""


def sets(cell: Cell, cache_bytes: int | None) -> int:
    """Sets of operands that the calls go round: 1, or as many as outgrow all caches if `.cold`."""
    if not cell.options.cold:
        return 1
    size = cell.operand_bytes
    wanted = -(-OUTGROWN * (cache_bytes or UNKNOWN_CACHE_BYTES) // size) + 1
    return max(2, min(wanted, MOST_SETS_BYTES // (size + SET_BYTES), MOST_SETS))


def problem(request: Request, here: ThisMachine, rotating: int) -> tuple[str, str] | None:
    """Status and reason when nothing can be measured; `rotating` is what `sets` says."""
    environment, cell = request.environment, request.cell
    if environment.problem:
        return "env-failed", environment.problem
    if shutil.which(environment.python) is None:
        return "env-failed", f"there is no Python at {environment.python}"
    share = request.settings["memory_fraction"]
    more = (rotating - 1) * (cell.operand_bytes + SET_BYTES)
    allows = f"budget.memory_fraction allows {share:.0%} of"
    available = cgroup.available_bytes()
    needed = WORKING_SETS * cell.operand_bytes + more + INTERPRETER_BYTES
    if available is not None and needed > share * available:
        return "infeasible", (
            f"needs about {needed / 1e9:.1f} GB of memory; {available / 1e9:.1f} GB are free "
            f"and {allows} them"
        )
    card = here.gpu_memory_bytes
    on_card = DEVICE_SETS * cell.operand_bytes + more
    if card is not None and on_card > share * card:
        return "infeasible", (
            f"needs about {on_card / 1e9:.1f} GB on the GPU, which has {card / 1e9:.1f} GB, "
            f"and {allows} them"
        )
    return None
