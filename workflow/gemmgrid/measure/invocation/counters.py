"""What the kernel counts while the samples are taken: cycles, CPU time, switches, migrations."""

from __future__ import annotations

import errno
import os
import resource
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gemmgrid.measure.perf_events import CPU_CYCLES, HARDWARE, TIMES, available, open_event

_REFUSED = {
    errno.ENOENT: "this CPU, or the virtual machine, counts no cycles",
    errno.EACCES: "sysctl kernel.perf_event_paranoid or the container does not allow it",
    errno.EPERM: "sysctl kernel.perf_event_paranoid or the container does not allow it",
    errno.EMFILE: "too many open files to count every thread (raise ulimit -n)",
}


@dataclass(frozen=True)
class _Reading:
    cpu_s: float
    switches: int
    preempted: int
    migrations: dict[str, int]


class Counters:
    """Counts between `start` and `stop`, of all threads that there are at the start.

    event   what the kernel counts in place of cycles, as (kind, event) of `perf_events`
    """

    def __init__(self, event: tuple[int, int] = (HARDWARE, CPU_CYCLES)) -> None:
        self._event = event
        self._open: list[int] = []
        self._cycles: int | None = None
        self._why = "no samples were taken"
        self._readings: list[_Reading] = []

    def start(self) -> None:
        try:
            if not available():
                raise OSError(errno.ENOENT, "the system has no such counters")
            for thread in _tasks():
                with suppress(ProcessLookupError):  # it has ended meanwhile
                    self._open.append(open_event(int(thread.name), *self._event, read=TIMES))
        except OSError as error:
            self._why = _REFUSED.get(error.errno or 0, error.strerror or str(error))
            self._close()
        self._readings = [_read()]

    def stop(self) -> None:
        self._readings.append(_read())
        counts = [struct.unpack("<QQQ", os.read(one, 24)) for one in self._open]
        self._close()
        if counts:
            # Where a counter had to be shared, it ran for a part of its time.
            ran = [(count * enabled / running) for count, enabled, running in counts if running]
            self._cycles = round(sum(ran))

    def record(self) -> dict[str, Any]:
        """The `counters` of a process."""
        unknown = {} if self._cycles is not None else {"cycles": self._why}
        found: dict[str, Any] = {"cycles": self._cycles, "task_clock_s": None, "switches": None}
        found |= {"preempted": None, "migrations": None}
        if len(self._readings) < 2:
            return {**found, "unknown": dict.fromkeys(found, self._why)}
        first, last = self._readings
        for name in ("switches", "preempted"):
            found[name] = getattr(last, name) - getattr(first, name)
        found["task_clock_s"] = round(last.cpu_s - first.cpu_s, 6)
        if last.migrations:
            found["migrations"] = sum(
                moved - first.migrations.get(thread, 0) for thread, moved in last.migrations.items()
            )
        else:
            unknown["migrations"] = "the kernel does not tell how often it moved a thread"
        return {**found, "unknown": unknown}

    def _close(self) -> None:
        for descriptor in self._open:
            os.close(descriptor)
        self._open = []


def _read() -> _Reading:
    used = resource.getrusage(resource.RUSAGE_SELF)
    moved = {}
    for thread in _tasks():
        with suppress(OSError, ValueError, StopIteration):
            lines = (thread / "sched").read_text(encoding="ascii", errors="replace").splitlines()
            line = next(line for line in lines if line.startswith("se.nr_migrations"))
            moved[thread.name] = int(line.partition(":")[2])
    switches = used.ru_nvcsw + used.ru_nivcsw
    return _Reading(used.ru_utime + used.ru_stime, switches, used.ru_nivcsw, moved)


def _tasks() -> list[Path]:
    return list(Path("/proc/self/task").glob("*"))
