"""Where a process's threads may run: by the cell's `placement`, before a library starts one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from gemmgrid.measure.invocation.outcome import Ended
from gemmgrid.records.cell import Cell
from gemmgrid.system.cpus import affinity
from gemmgrid.system.files import ROOT, cpu_list, entries, integer, text

LAST_CPU, TICKS = 36, (11, 12)
"""In /proc/<pid>/stat after the name: the CPU that a thread ran on last; its CPU time."""


def pin(cell: Cell) -> list[int] | None:
    """Bind this process, and what it will start, to the CPUs that the cell asks for.

    None where it asks for none. Ends as `unsupported` where it cannot be.
    """
    if cell.options.placement == "auto":
        return None
    allowed = affinity()
    if allowed is None:
        raise Ended("unsupported", "placement: this system binds no process to CPUs")
    cpus = choose(cell.options.placement, cell.threads, allowed)
    if missing := [cpu for cpu in cpus if cpu not in allowed]:
        told = ", ".join(map(str, missing))
        raise Ended("unsupported", f"placement: CPU {told} is none that this process may use")
    if len(cpus) < cell.threads:
        raise Ended("unsupported", f"placement: {len(cpus)} CPUs for {cell.threads} threads")
    os.sched_setaffinity(0, cpus)
    return cpus


def choose(placement: str, threads: int, allowed: list[int], root: Path = ROOT) -> list[int]:
    """The CPUs of a placement, sorted.

    close    as few sockets, then last-level caches as hold that many threads, a core each as long
             as there are cores in the cache
    spread   turn by turn in each cache, those of other sockets first, a core each as long as there
             are cores
    """
    if placement not in ("close", "spread"):
        return sorted(set(cpu_list(placement)))
    places = {cpu: _place(root, cpu) for cpu in allowed}
    close = sorted(allowed, key=lambda cpu: (*places[cpu], cpu))
    if placement == "close":
        return sorted(close[:threads])
    turns: dict[tuple[int, str], int] = {}
    sockets: dict[int, list[str]] = {}
    order = []
    for cpu in close:
        socket, cache, sibling = places[cpu]
        caches = sockets.setdefault(socket, [])
        caches += [] if cache in caches else [cache]
        turn = turns[socket, cache] = turns.get((socket, cache), -1) + 1
        order.append((sibling, turn, caches.index(cache), socket, cpu))
    return sorted(cpu for *_, cpu in sorted(order)[:threads])


def _place(root: Path, cpu: int) -> tuple[int, str, int]:
    """A CPU's socket, its largest cache by the CPUs that share it, and its rank in its core."""
    folder = f"sys/devices/system/cpu/cpu{cpu}"
    caches = [
        (integer(root, f"{folder}/cache/{one}/level") or 0, one)
        for one in entries(root, f"{folder}/cache")
        if one.startswith("index")
    ]
    shared = text(root, f"{folder}/cache/{max(caches)[1]}/shared_cpu_list") if caches else None
    siblings = cpu_list(text(root, f"{folder}/topology/thread_siblings_list"))
    rank = siblings.index(cpu) if cpu in siblings else 0
    return integer(root, f"{folder}/topology/physical_package_id") or 0, shared or "", rank


def record(cell: Cell, cpus: list[int] | None) -> dict[str, Any]:
    """The `placement` of a process, right after its samples: `ran`, where threads that have worked
    ran last, proves it."""
    ran = set()
    for thread in entries(ROOT, "proc/self/task"):
        stat = (text(ROOT, f"proc/self/task/{thread}/stat") or "").rpartition(")")[2].split()
        if len(stat) > LAST_CPU and any(int(stat[tick]) for tick in TICKS):
            ran.add(int(stat[LAST_CPU]))
    unknown = {} if ran else {"ran": "the system does not tell where a thread ran"}
    return {
        "asked": cell.options.placement,
        "cpus": cpus,
        "ran": sorted(ran) or None,
        "unknown": unknown,
    }
