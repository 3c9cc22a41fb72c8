"""What the CPUs of a cell reached in pure loops while it was measured: the ceilings of its rate.

The table of known peaks says what a processor's maker promises at a clock that nobody may have
seen; these are what this machine, at that moment, with these CPUs, could do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gemmgrid.records.states import counted

ARITHMETIC = {
    "float32": "float32",
    "complex64": "float32",
    "float64": "float64",
    "complex128": "float64",
}
"""The loop whose operations a dtype's are. Others have instructions of their own on some processors
(float16, bfloat16), which the loops do not use: they have no ceiling."""


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


def ceilings(run: Mapping[str, Any]) -> Ceilings:
    """The highest rates that the probes of a run saw: what disturbs a loop makes it slower."""
    probes = [one["probe"] for one in counted(run) if one.get("probe")]
    loop = ARITHMETIC.get(run["cell"]["dtype"])
    halves = [probe[when] for probe in probes for when in ("before", "after") if probe.get(when)]
    flops = [rate for half in halves if loop for rate in half[loop]["all"]]
    memory = [probe["memory"] for probe in probes if probe.get("memory")]
    moved = [rate for one in memory for name in ("triad", "read") for rate in one[name]]
    return Ceilings(max(flops, default=None), max(moved, default=None))
