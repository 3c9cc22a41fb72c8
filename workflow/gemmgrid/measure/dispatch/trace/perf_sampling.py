"""Sampling where this process spends its time, by the kernel: perf_event_open(2).

No signals, no other program, no root: the kernel notes the instruction pointer of each running
thread some thousand times a second and puts it into memory that we read afterwards. It sees code
that nothing else names: static libraries, inlined loops, code generated at run time.
Needs perf_event_paranoid of 2 or less, and a container that allows the system call.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import platform
import re
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gemmgrid.measure.dispatch.objects.elf import named_objects
from gemmgrid.measure.dispatch.objects.refusals import PlatformError, SamplingError
from gemmgrid.measure.dispatch.objects.symbols import AddressNames, symbol_table
from gemmgrid.measure.dispatch.objects.words import MemoryMap
from gemmgrid.measure.perf_events import (
    CPU_CLOCK,
    DISABLED,
    FREQUENCY,
    SOFTWARE,
    available,
    libc,
    open_event,
)

HERTZ = 2000
BUFFER_BYTES = 16384
"""For each thread: 1024 samples of 16 bytes, half a second at 2000 Hz."""
GENERATED = "code generated at run time"

_ENABLE, _DISABLE = 0x2400, 0x2401
_SAMPLE_IP = 1
_HEAD, _TAIL = 1024, 1032
_RECORD_LOST, _RECORD_SAMPLE = 2, 9

_WAITING = re.compile(
    r"blas_thread_server|inner_thread|exec_blas|exec_threads|gomp_|kmp_|__kmp|RunQueue|GlobalSteal|"
    r"sched_yield|pthread_|futex|syscall|nanosleep|do_spin|omp_|WaitForWork|NonEmptyQueueIndex|"
    r"EigenEnvironment|ThreadPoolTempl|Steal"
)
"""Where threads that have nothing to do pass their time."""
_OPENMP = re.compile(r"lib(gomp|iomp5|omp)\b")
"""Runtimes that only share out work and wait for it."""


@dataclass(frozen=True)
class Place:
    """A function, and the file it is in; `function` is None where the file does not name it."""

    library: str
    function: str | None


@dataclass
class Samples:
    """What was sampled: how often each place was seen."""

    places: Counter[Place] = field(default_factory=Counter)
    lost: int = 0

    @property
    def total(self) -> int:
        return sum(self.places.values())

    @property
    def waiting(self) -> int:
        """Samples of threads that wait or look for work."""
        return sum(count for place, count in self.places.items() if is_waiting(place))

    @property
    def working(self) -> int:
        """Samples of threads that did something."""
        return self.total - self.waiting

    def busiest(self) -> list[tuple[Place, int]]:
        """Places that did something, the busiest first."""
        return [(p, n) for p, n in self.places.most_common() if not is_waiting(p)]

    def add(self, other: Samples) -> None:
        self.places.update(other.places)
        self.lost += other.lost


def is_waiting(place: Place) -> bool:
    """Whether a thread found there waits for work, or for others to finish theirs."""
    if _OPENMP.match(Path(place.library).name):
        return True
    return place.function is not None and _WAITING.search(place.function) is not None


class Sampler:
    """Samples all threads that this process has when it starts.

        with Sampler() as sampler:
            np.matmul(A, B)
        sampler.samples().busiest()

    Raises SamplingError when entered.
    """

    def __init__(self, hertz: int = HERTZ) -> None:
        self._hertz = hertz
        self._events: list[tuple[int, mmap.mmap]] = []
        self._read = Samples()

    def __enter__(self) -> Sampler:
        try:
            for thread in os.listdir("/proc/self/task"):  # noqa: PTH208
                self._open(int(thread))
            for descriptor, _ in self._events:
                libc.ioctl(descriptor, _ENABLE, 0)
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, *_raised: object) -> None:
        for descriptor, _ in self._events:
            libc.ioctl(descriptor, _DISABLE, 0)
        self._read = self.samples()
        self._close()

    def samples(self) -> Samples:
        """What was sampled so far; may be asked while sampling goes on."""
        if not self._events:
            return self._read
        pointers: list[int] = []
        lost = 0
        for _, buffer in self._events:
            for kind, value in _records(buffer):
                if kind == _RECORD_SAMPLE:
                    pointers.append(value)
                else:
                    lost += value
        return Samples(_places(pointers), lost)

    def _open(self, thread: int) -> None:
        if not available():
            raise PlatformError(f"no sampling on {platform.system()} {platform.machine()}")
        try:
            descriptor = open_event(
                thread, SOFTWARE, CPU_CLOCK, self._hertz, _SAMPLE_IP, flags=DISABLED | FREQUENCY
            )
        except ProcessLookupError:  # the thread has ended meanwhile
            return
        except OSError as error:
            raise SamplingError(_refusal(error.errno or 0)) from error
        data = max(BUFFER_BYTES, mmap.PAGESIZE)
        try:
            buffer = mmap.mmap(descriptor, mmap.PAGESIZE + data)
        except OSError as error:
            os.close(descriptor)
            raise SamplingError(
                f"no memory for samples ({error.strerror}): perf_event_mlock_kb is "
                f"{_setting('perf_event_mlock_kb')} kB for each processor"
            ) from error
        self._events.append((descriptor, buffer))

    def _close(self) -> None:
        for descriptor, buffer in self._events:
            buffer.close()
            os.close(descriptor)
        self._events = []


def _records(buffer: mmap.mmap) -> Iterator[tuple[int, int]]:
    """(kind, value) of the samples and losses in a buffer: an address, or how many were lost.

    The kernel counts bytes written at `_HEAD` and stops when it would overtake `_TAIL`, which we
    leave at 0: the first samples stay, later ones are lost and counted.
    """
    (head,) = struct.unpack_from("<Q", buffer, _HEAD)
    size = len(buffer) - mmap.PAGESIZE
    position = 0
    while position + 16 <= min(head, size):
        kind, _misc, length = struct.unpack_from("<IHH", buffer, mmap.PAGESIZE + position)
        if length == 0:
            return
        if kind == _RECORD_SAMPLE:
            yield kind, struct.unpack_from("<Q", buffer, mmap.PAGESIZE + position + 8)[0]
        elif kind == _RECORD_LOST and position + 24 <= size:
            yield kind, struct.unpack_from("<Q", buffer, mmap.PAGESIZE + position + 16)[0]
        position += length


def _places(pointers: list[int]) -> Counter[Place]:
    names = AddressNames(named_objects())
    memory = MemoryMap()
    found: Counter[Place] = Counter()
    for pointer, count in Counter(pointers).items():
        loaded, function = names.function(pointer)
        if loaded is not None:
            found[Place(loaded.path, function)] += count
            continue
        region = memory.at(pointer)
        path = region.path if region else ""
        generated = not path or path.startswith(("[anon", "/memfd:", "/dev/zero"))
        found[Place(path or GENERATED, GENERATED if generated else None)] += count
    return found


def _refusal(code: int) -> str:
    paranoid = _setting("perf_event_paranoid")
    name = errno.errorcode.get(code, str(code))
    if code in (errno.EACCES, errno.EPERM):
        blocked = (
            "a container or its seccomp profile blocks perf_event_open"
            if paranoid.lstrip("-").isdigit() and int(paranoid) <= 2
            else "sampling needs 2 or less (sysctl kernel.perf_event_paranoid=2, by root)"
        )
        return f"the kernel refuses sampling ({name}): perf_event_paranoid is {paranoid}; {blocked}"
    if code == errno.ENOSYS:
        return "this kernel has no perf_event_open, so nothing can be sampled"
    if code == errno.EMFILE:
        return "too many open files to sample every thread (raise ulimit -n)"
    return f"the kernel refuses sampling ({name}: {os.strerror(code)})"


def _setting(name: str) -> str:
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel", name).read_text(encoding="utf-8").strip()
    return "unknown"


def is_stripped(path: str) -> bool:
    """Whether a file has lost the names of its local functions."""
    try:
        return symbol_table(path).stripped
    except OSError:
        return True
