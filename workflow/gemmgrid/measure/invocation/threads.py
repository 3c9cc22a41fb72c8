"""Prove how many threads worked: CPU time burned over a window, thread by thread.

A library's word about its threads is not proof: variables come too late, pools ignore them, a
library pins its process to one core. So the census reads what the kernel charged to each thread
while the samples were taken.

Burning is not working: OpenMP threads (PyTorch, MKL) spin between parallel regions for some
milliseconds, and a spinning thread looks like a working one. So `seen` is the number of threads
that were kept busy, and an upper bound of those that worked. It misses a library that keeps its
pool spinning while one thread computes; it cannot miss threads that did nothing. OpenBLAS puts
idle threads to sleep, and shows what is so: one thread for a small product, whatever was asked.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gemmgrid.system import cgroup
from gemmgrid.system.cpus import affinity
from gemmgrid.system.files import ROOT, entries, text

WORKED = 0.2
"""Share of the busiest thread's time from which a thread counts: shares of one product differ by a
factor of two at most, housekeeping threads (1 to 7 % were measured under JAX) stay far below."""
ALTERNATING = 0.6
"""Busy time, per thread that counts, below which they took turns rather than worked together: JAX
and MLX hand a call from the main thread to a worker and wait (0.5 was measured). Threads that
work together and wait for the slowest stay above."""
ATTRIBUTED = 0.7
"""Share of the process's CPU time that living threads must account for; what is missing was burned
by threads that ended during the window."""
SHORT_CALL_S = 100e-6
"""Calls shorter than this are not held to the number asked for: OpenBLAS and others rightly use one
thread for them, and a hand-over between threads overlaps with the work."""
SHORT_WINDOW_S = 0.05
"""Windows shorter than this are not judged: the kernel charges CPU time in steps of up to 10 ms."""
TOLERANCE = 0.25
"""Share of the threads asked for by which large counts may differ: 6 of 8 is still a team that
waits for its slowest, 4 of 8 is another number. Of 1, 2 and 3 threads none may be missing."""
ALL_CPUS, QUEUED = 0.95, 0.25
"""Share of the CPUs in use, and of waiting to running, at which threads crowd each other out."""


@dataclass(frozen=True)
class Snapshot:
    """Clocks at one end of a window; `threads` is thread id → (ran, waited) in seconds."""

    wall_s: float
    process_s: float
    threads: dict[str, tuple[float, float]]


def snapshot(root: Path = ROOT) -> Snapshot:
    """The clocks now. About 10 µs, and 10 µs more for each thread of the process."""
    return Snapshot(time.perf_counter(), time.process_time(), _threads(root))


class Census:
    """Counts one invocation's threads: make it before the library is imported.

    census = Census(); (import, set threads); census.imported()
    census.start(); (take all samples); census.stop()
    record["threads"] = census.result(asked, library)
    """

    def __init__(self) -> None:
        self.affinity_before = affinity()
        self.affinity_after: list[int] | None = None
        self._start: Snapshot | None = None
        self._stop: Snapshot | None = None

    def imported(self) -> None:
        """Note the affinity that the library left; the last call before `result` counts."""
        self.affinity_after = affinity()

    def start(self) -> None:
        self._start = snapshot()

    def stop(self) -> None:
        self._stop = snapshot()
        self.imported()  # some libraries pin their threads only in the first call

    @property
    def window_s(self) -> float | None:
        if self._start is None or self._stop is None:
            return None
        return self._stop.wall_s - self._start.wall_s

    def result(self, asked: int, library: int | None) -> dict[str, Any]:
        """The `threads` part of the invocation's record; `library` is what the library says."""
        unknown: dict[str, str] = {}
        burned = waited = seen = None
        if self._start is None or self._stop is None:
            unknown["burned"] = unknown["waited"] = unknown["seen"] = "no samples were taken"
        else:
            burned = _burned(self._start, self._stop)
            waited = _waited(self._start, self._stop)
            seen = threads_seen(self._start, self._stop)
            if not self._stop.threads:
                unknown["waited"] = "no /proc; `seen` is derived from the whole process's CPU time"
        if library is None:
            unknown["library"] = "the library does not tell how many threads it uses"
        quota = cgroup.read().cpus
        if quota is None:
            unknown["quota"] = "no CPU quota is set, or no control group can be read"
        count = len(entries(ROOT, "proc/self/task")) or None
        found = {
            "asked": asked,
            "library": library,
            "os": count,
            "burned": burned,
            "waited": waited,
            "seen": seen,
            "affinity_before": self.affinity_before,
            "affinity_after": self.affinity_after,
            "quota": quota,
        }
        for key in ("os", "affinity_before", "affinity_after"):
            if found[key] is None:
                unknown[key] = "the system does not tell it"
        return {**found, "window_s": self.window_s, "unknown": unknown}


def threads_seen(start: Snapshot, stop: Snapshot) -> int | None:
    """How many threads were busy together between two snapshots; None for an empty window."""
    wall = stop.wall_s - start.wall_s
    process = stop.process_s - start.process_s
    if wall <= 0 or process <= 0:
        return None
    ran, wanted = _spent(start, stop)
    whole = max(1, round(process / wall))
    if sum(ran) < ATTRIBUTED * process:
        return whole  # no /proc, or the threads that worked are gone
    busy = [time_s for time_s in ran if time_s >= WORKED * max(ran)]
    # Time spent waiting for a CPU counts as wanting to work, so that a loaded machine does not make
    # a team of eight look like one of six.
    together = sum(wanted) / wall
    return len(busy) if together >= ALTERNATING * len(busy) else max(1, round(together))


def judge(
    threads: Mapping[str, Any], window_s: float | None = None, call_s: float | None = None
) -> list[str]:
    """Flags that a `threads` record earns: wrong-threads, oversubscribed, affinity-changed, quota.

    window_s   length of the window, by default the record's own
    call_s     time of one call, to leave short ones alone
    """
    flags = []
    asked, library, seen = threads.get("asked"), threads.get("library"), threads.get("seen")
    window = window_s if window_s is not None else threads.get("window_s")
    before, after = threads.get("affinity_before"), threads.get("affinity_after")
    differ = asked is not None and library is not None and asked != library
    if asked is not None and seen is not None and (window is None or window >= SHORT_WINDOW_S):
        short = call_s is not None and call_s < SHORT_CALL_S
        tolerance = int(TOLERANCE * asked)
        differ = differ or (seen < asked - tolerance and not short)
        differ = differ or (seen > asked + max(tolerance, int(short)) and _too_many(threads, asked))
    if differ:
        flags.append("wrong-threads")
    if asked is not None and before and asked > len(before):
        flags.append("oversubscribed")
    if before is not None and after is not None and before != after:
        flags.append("affinity-changed")
    quota = threads.get("quota")
    if quota is not None and asked is not None and quota < asked:
        flags.append("quota")
    return flags


def _too_many(threads: Mapping[str, Any], asked: int) -> bool:
    """Whether more threads than were asked for really computed at once.

    On a machine that others keep busy, the work of two can wander over a pool of four (JAX does),
    each of them waiting for a CPU most of the time. So either more CPU time was burned than
    the threads asked for can burn, or the threads held all the CPUs there are and queued for more.
    """
    burned = threads.get("burned")
    if burned is None or burned > (1 + TOLERANCE) * asked:
        return True
    cpus = len(threads.get("affinity_after") or ()) or os.cpu_count() or 1
    queued = (threads.get("waited") or 0.0) > QUEUED * burned
    return queued and burned >= ALL_CPUS * cpus


def _burned(start: Snapshot, stop: Snapshot) -> float | None:
    """CPU seconds of the process per second of the window."""
    wall = stop.wall_s - start.wall_s
    return round((stop.process_s - start.process_s) / wall, 3) if wall > 0 else None


def _waited(start: Snapshot, stop: Snapshot) -> float | None:
    """Threads that waited for a CPU, on average over the window."""
    wall = stop.wall_s - start.wall_s
    if wall <= 0 or not stop.threads:
        return None
    ran, wanted = _spent(start, stop)
    return round((sum(wanted) - sum(ran)) / wall, 3)


def _spent(start: Snapshot, stop: Snapshot) -> tuple[list[float], list[float]]:
    """Seconds that each living thread ran, and ran or waited for a CPU."""
    ran, wanted = [], []
    for thread, (run, waited) in stop.threads.items():
        run_before, waited_before = start.threads.get(thread, (0.0, 0.0))
        ran.append(run - run_before)
        wanted.append(run - run_before + waited - waited_before)
    return ran or [0.0], wanted or [0.0]


def _threads(root: Path) -> dict[str, tuple[float, float]]:
    """Thread id → seconds ran and waited, of this process; empty without /proc."""
    found = {}
    for thread in entries(root, "proc/self/task"):
        fields = (text(root, f"proc/self/task/{thread}/schedstat") or "").split()
        if len(fields) >= 2:  # nanoseconds
            found[thread] = (int(fields[0]) / 1e9, int(fields[1]) / 1e9)
            continue
        # A kernel without scheduler statistics: clock ticks, after the name in parentheses.
        stat = (text(root, f"proc/self/task/{thread}/stat") or "").rpartition(")")[2].split()
        if len(stat) > 12:
            ticks = int(stat[11]) + int(stat[12])
            found[thread] = (ticks / os.sysconf("SC_CLK_TCK"), 0.0)
    return found
