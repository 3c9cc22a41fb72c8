"""What the CPUs of a cell reached in pure loops while it was measured: the ceilings of its rate.

The table of known peaks says what a processor's maker promises at a clock that nobody may have
seen; these are what this machine, at that moment, with these CPUs, could do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gemmgrid.records.cell import Cell
from gemmgrid.records.states import counted

ARITHMETIC = {
    "float32": "float32",
    "complex64": "float32",
    "float64": "float64",
    "complex128": "float64",
}
"""The loop whose operations a dtype's are. Others have instructions of their own on some processors
(float16, bfloat16), which the loops do not use: they have no ceiling."""
ABOVE_ARITHMETIC = 1.25
"""A rate may exceed the measured arithmetic by that: clocks drift by 2 to 4 %, and of 728 processes
on a virtual machine no median was above 0.91 of it and no batch above 0.95."""
ABOVE_MEMORY = 2.0
"""The same for memory, whose measured rate wanders by a quarter each way with the neighbours."""
THREE_PRODUCTS = 4 / 3
"""A complex product needs three real ones (the "3M" routines), and is counted as four."""
MATRIX_UNITS = ("amx", "sme", "sve")
"""Extensions whose instructions the loops don't use, so that a product may be faster."""


@dataclass(frozen=True)
class Ceilings:
    """Of all the cell's CPUs together; None where it was not measured.

    flops         operations per second of independent multiply-adds in the widest vectors
    bytes_per_s   read from or written to memory past the caches, the faster of the two loops
    """

    flops: float | None
    bytes_per_s: float | None

    def seconds(self, flops: float, moved: float) -> float | None:
        """The least time of a call that does `flops` operations and moves `moved` bytes through
        memory, by the roofline model (Williams, Waterman and Patterson, CACM 52(4), 2009).

        Operands that stay in a cache move no bytes: give 0 for them.
        """
        parts = [
            amount / rate
            for amount, rate in ((flops, self.flops), (moved, self.bytes_per_s))
            if rate
        ]
        return max(parts, default=None)


def cache_bytes(facts: Mapping[str, Any]) -> int | None:
    """Of all caches of the CPUs past the first level together, from a machine's facts."""
    sizes = [
        (one.get("size_bytes") or 0) * (one.get("count") or 1)
        for one in (facts.get("cpu") or {}).get("caches") or []
        if (one.get("level") or 0) > 1
    ]
    return sum(sizes) or None


def moved_bytes(cell: Cell, caches: int | None) -> int:
    """What a call must fetch from memory at least: what caches of that size can't hold."""
    if cell.options.cold:
        return cell.operand_bytes
    return 0 if caches is None else max(0, cell.operand_bytes - caches)


def impossible(run: Mapping[str, Any], seconds: float, caches: int | None) -> str | None:
    """Why no call of the run's cell takes so little time on the CPUs that were probed, or None."""
    cell, roof = Cell.from_json(run["cell"]), ceilings(run)
    isa = (run.get("host") or {}).get("isa") or []
    wider = any(name.startswith(MATRIX_UNITS) for name in isa)
    own = {one.get("effective_precision") for one in counted(run)} == {cell.dtype}
    most = ABOVE_ARITHMETIC * (THREE_PRODUCTS if cell.is_complex else 1.0)
    moved = moved_bytes(cell, caches)
    bounds = {
        "arithmetic": (cell.flops, roof.flops if own and not wider else None, most, "FLOP"),
        "memory": (moved, roof.bytes_per_s, ABOVE_MEMORY, "B"),
    }
    for name, (amount, rate, margin, unit) in bounds.items():
        if rate and amount / seconds > margin * rate:
            return (
                f"{amount / seconds / 1e9:.4g} G{unit}/s, and pure {name} on the same CPUs reached "
                f"{rate / 1e9:.4g} around it"
            )
    return None


def ceilings(run: Mapping[str, Any]) -> Ceilings:
    """The highest rates that the probes of a run saw: what disturbs a loop makes it slower."""
    probes = [one["probe"] for one in counted(run) if one.get("probe")]
    loop = ARITHMETIC.get(run["cell"]["dtype"])
    halves = [probe[when] for probe in probes for when in ("before", "after") if probe.get(when)]
    flops = [rate for half in halves if loop for rate in half[loop]["all"]]
    memory = [probe["memory"] for probe in probes if probe.get("memory")]
    moved = [rate for one in memory for name in ("triad", "read") for rate in one[name]]
    return Ceilings(max(flops, default=None), max(moved, default=None))
