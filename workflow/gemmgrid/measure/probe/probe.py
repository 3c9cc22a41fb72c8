"""How the machine is right before and right after a process's samples: the `probe` of its record.

On a virtual machine the host moves virtual CPUs between caches and sockets, and nothing but the
time of a cache line between them shows it. The rates that the same CPUs reach in loops of pure
arithmetic and pure memory traffic are the cell's ceilings, at that moment and on that machine.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gemmgrid.measure.probe.team import Team, UnknowableError
from gemmgrid.system import cgroup

CACHES = 4
"""The memory loops' arrays together are this many times the last-level caches."""
LEAST_BYTES, MOST_BYTES = 64 << 20, 1 << 30
FREE_SHARE = 0.25
"""Of the memory that is free, what the arrays may take."""
WHEREABOUTS_FIELD, TICKS_FIELDS = 36, (11, 12)
"""In /proc/<pid>/stat after the name: the CPU a thread ran on last; its user and system time."""


class Probe:
    """Measures on the CPUs that the process's busiest threads ran on last.

    found = Probe("cpu", threads); found.around("before"); (samples); found.around("after")
    found.memory(cache_bytes); record["probe"] = found.record
    """

    def __init__(self, device: str, threads: int) -> None:
        self.record: dict[str, Any] = {
            "cpus": None,
            "vectors": None,
            "before": None,
            "after": None,
            "memory": None,
            "unknown": {},
        }
        self._team: Team | None = None
        try:
            if device != "cpu":
                raise UnknowableError(f"the work is done by {device}, not by the CPUs")
            self._team = Team(_cpus_in_use(threads))
            self.record["cpus"], self.record["vectors"] = self._team.cpus, self._team.vectors
        except UnknowableError as error:
            self.record["unknown"] = dict.fromkeys(
                ("cpus", "vectors", "before", "after", "memory"), str(error)
            )

    def around(self, when: str) -> None:
        """Fill `before` or `after`: {"trips", "float32", "float64"}; see `Team`."""
        self._fill(
            when,
            lambda team: {
                "trips": team.trips(),
                "float32": team.flops("float32"),
                "float64": team.flops("float64"),
            },
        )

    def memory(self, cache_bytes: int | None) -> None:
        """Fill `memory`; `cache_bytes` is the size of the last-level caches of the CPUs."""
        wanted = max(LEAST_BYTES, CACHES * (cache_bytes or 0))
        free = cgroup.available_bytes()
        wanted = min(wanted, MOST_BYTES, int(FREE_SHARE * free) if free else LEAST_BYTES)
        self._fill("memory", lambda team: team.memory(wanted))

    def skip(self, key: str, reason: str) -> None:
        """Say why `key` is not measured here."""
        self.record["unknown"].setdefault(key, reason)

    def _fill(self, key: str, measure: Callable[[Team], dict[str, Any]]) -> None:
        if self._team is None:
            return
        try:
            self.record[key] = measure(self._team)
        except (UnknowableError, OSError, MemoryError) as error:
            self.record["unknown"][key] = str(error) or type(error).__name__


def _cpus_in_use(threads: int) -> list[int]:
    """As many CPUs as `threads`: where this process's busiest threads ran last, then any allowed.

    The kernel may move threads between CPUs; those that a library keeps busy it leaves alone.
    """
    if not hasattr(os, "sched_getaffinity"):
        return [0]  # `Team` refuses such a system, and says why
    allowed = sorted(os.sched_getaffinity(0))
    seen: list[tuple[int, int]] = []
    for task in Path("/proc/self/task").glob("*/stat"):
        try:
            fields = task.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            busy = sum(int(fields[i]) for i in TICKS_FIELDS)
            seen.append((-busy, int(fields[WHEREABOUTS_FIELD])))
        except (OSError, IndexError, ValueError):
            continue
    used = [cpu for _, cpu in sorted(seen) if cpu in allowed]
    return sorted(list(dict.fromkeys([*used, *allowed]))[:threads])
