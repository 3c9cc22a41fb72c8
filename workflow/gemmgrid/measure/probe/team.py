"""Threads on chosen CPUs that run the probe's machine code together, and what they measure.

Nothing here holds the interpreter's lock while it measures: ctypes gives it up around each loop,
and each loop takes its time itself, between the moment when all have arrived and its own end.
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
import os
import platform
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType

import numpy as np

from gemmgrid.measure import code_pages
from gemmgrid.measure.probe import code_aarch64, code_x86_64

CODE: dict[str, ModuleType] = {"x86_64": code_x86_64, "aarch64": code_aarch64}
PATIENCE = 1 << 25
"""Looks at the others' arrival, about half a second, before a thread gives up."""
CHUNKS = 5
"""Repetitions of a trip between two CPUs and of an arithmetic loop: all are kept."""
TRIPS = 10_000
"""Trips of one probe that follow one another: half a millisecond to four milliseconds."""
MOST_IN_PAIRS = 8
"""CPUs up to which every pair is measured; more of them form a chain."""
ROUNDS = 20_000
"""Of the arithmetic loop: about 0.1 ms."""
PASSES = 3
LONG_S = 0.004
"""Time from which the repetitions that are left are not begun, so that a busy machine costs little
more than a quiet one. (A pass over the memory takes longer, and every one is a call of its own.)"""
LINE = 256
"""Bytes between words of different purpose: two lines, which some processors fetch together."""


class UnknowableError(Exception):
    """This system does not let the probe work; the text is the reason that the record carries."""


class Team:
    """One thread for each of `cpus`; raises UnknowableError where there can be none."""

    def __init__(self, cpus: Sequence[int], vectors: str | None = None) -> None:
        """`vectors` is the name of others than the widest."""
        self.cpus = list(cpus)
        self._code, widest = processor()
        self.vectors = vectors or widest
        self._loops = _placed(self._code, self.vectors)
        self._zero = self._now()

    def trips(self) -> list[dict[str, object]]:
        """Time of a cache line from one CPU to another and back: {"cpus", "ns"}, a pair each.

        All pairs of up to eight CPUs, otherwise each with the next. `ns` holds five means (fewer
        on a busy machine); where a thread was kept waiting for a quarter of a millisecond, its
        mean is of the trips made until then. That happens where a library's own threads still spin
        (OpenMP does for some milliseconds after a call), so it is tried a second time.
        """
        chosen, in_a_row = pairs(len(self.cpus))
        if not chosen:
            return []
        count = TRIPS // CHUNKS // in_a_row
        ns, complete = self._bounce(chosen, count)
        if not complete:
            ns, _ = self._bounce(chosen, count)
        return [
            {"cpus": [self.cpus[seat] for seat in pair], "ns": [round(x, 1) for x in row if x]}
            for pair, row in zip(chosen, ns.tolist(), strict=True)
        ]

    def _bounce(self, chosen: list[tuple[int, int]], count: int) -> tuple[np.ndarray, bool]:
        """Mean time in ns, of shape (pairs, chunks), 0 where not begun; whether none gave up."""
        size = (CHUNKS + 1) * LINE
        words = Words(len(chosen) * size)
        ticks, made = np.zeros((2, len(chosen), CHUNKS))
        lasts = [_Last(CHUNKS) for _ in chosen]

        def work(seat: int) -> None:
            for i, pair in enumerate(chosen):
                if seat not in pair:
                    continue
                second = int(seat == pair[1])
                for chunk in lasts[i].numbers(first=not second):
                    start, target = words.address + i * size, 2 * (chunk + 1)
                    line = start + (chunk + 1) * LINE
                    took = self._call("bounce", start, target, count, line, second)
                    if not second:
                        # It ends with its last store, half a trip before the answer.
                        ticks[i, chunk], made[i, chunk] = took, (words.at(line) + 1) // 2

        self._together(work)
        complete = bool((made[ticks > 0] == count).all())
        return ticks * self._tick_ns() / np.maximum(made - 0.5, 1), complete

    def flops(self, dtype: str) -> dict[str, list[float]]:
        """Operations per second of a fixed loop on all CPUs at once: {"all", "slowest"}.

        all       the CPUs' rates added up, of each repetition
        slowest   the rate of the slowest CPU in it
        """
        ticks = self._repeat(dtype, CHUNKS, lambda seat: (ROUNDS, 0, 0))
        rates = ROUNDS * self._code.flops(self.vectors, dtype) / (ticks * self._tick_ns() * 1e-9)
        return {"all": _rounded(rates.sum(axis=0)), "slowest": _rounded(rates.min(axis=0))}

    def memory(self, bytes_wanted: int) -> dict[str, object]:
        """Bytes per second that all CPUs together move: {"bytes", "triad", "read"}.

        triad   a = b + s c, counted as STREAM does: two arrays read and one written (a store that
                has to fetch its line first moves a third more)
        read    the same arrays, read only: what dot and gemv can reach
        bytes   size of all arrays; each CPU's share is touched first, and worked on, by that CPU
        """
        block = self._code.BLOCK
        length = -(-bytes_wanted // (3 * len(self.cpus)) // mmap.PAGESIZE) * mmap.PAGESIZE
        shares = [Words(3 * length) for _ in self.cpus]

        def touch(seat: int) -> None:
            shares[seat].array[:] = 1

        self._together(touch)
        total = 3 * length * len(self.cpus)
        found: dict[str, object] = {"bytes": total}
        for name, loop, count in (
            ("triad", "triad", length // block),
            ("read", "total", 3 * length // block),
        ):
            given = [(count, share.address, length) for share in shares]
            passes = [self._repeat(loop, 1, given.__getitem__).max() for _ in range(PASSES)]
            found[name] = _rounded(total / (np.array(passes) * self._tick_ns() * 1e-9))
        return found

    def _repeat(
        self, loop: str, times: int, given: Callable[[int], tuple[int, int, int]]
    ) -> np.ndarray:
        """Ticks that `loop` took on each CPU, all starting together; (CPUs, at most `times`)."""
        words = Words(LINE)
        ticks = np.zeros((len(self.cpus), times))
        last = _Last(times)

        def work(seat: int) -> None:
            count, base, value = given(seat)
            for i in last.numbers(first=seat == 0):
                target = (i + 1) * len(self.cpus)
                ticks[seat, i] = self._call(loop, words.address, target, count, base, value)

        self._together(work)
        return ticks[:, ticks[0] > 0]

    def _together(self, work: Callable[[int], None]) -> None:
        """Run work(seat) in a thread on each CPU; raises what one of them raised."""
        problems: list[BaseException] = []

        def run(seat: int) -> None:
            try:
                os.sched_setaffinity(0, {self.cpus[seat]})  # of this thread alone
                work(seat)
            except BaseException as error:
                problems.append(error)

        threads = [threading.Thread(target=run, args=(seat,)) for seat in range(len(self.cpus))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if problems:
            first = problems[0]
            raise (
                UnknowableError(f"{type(first).__name__}: {first}")
                if isinstance(first, OSError | RuntimeError)
                else first
            )

    def _call(self, loop: str, barrier: int, target: int, *rest: int) -> int:
        """Ticks of one loop, all of whose threads arrive first; `rest` is count, base, value."""
        count, base, value = rest
        took = self._loops[loop](barrier, target, count, PATIENCE, base, value)
        if not took:
            raise UnknowableError("a CPU did not get its thread to run within half a second")
        return took

    def _now(self) -> tuple[int, int]:
        return time.perf_counter_ns(), self._loops["ticks"](0, 0, 0, 0, 0, 0)

    def _tick_ns(self) -> float:
        """Length of a tick, from two readings at least 2 ms apart."""
        while (now := self._now())[0] - self._zero[0] < 2_000_000:
            pass
        return (now[0] - self._zero[0]) / (now[1] - self._zero[1])


class _Last:
    """The number of the last repetition, which threads that work together must agree on.

    The first thread decides before it arrives at a repetition; the others look after they have
    met it there, so all know.
    """

    def __init__(self, times: int) -> None:
        self._last = times - 1

    def numbers(self, *, first: bool) -> Iterator[int]:
        end = time.perf_counter() + LONG_S
        for i in itertools.count():
            if first and time.perf_counter() > end:
                self._last = min(i, self._last)
            yield i
            if i >= self._last:
                return


class Words:
    """Zeroed memory of its own pages, for words that threads share and for arrays."""

    def __init__(self, size: int) -> None:
        # Private, because pages that processes may share are small ones.
        self._pages = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.array: np.ndarray = np.frombuffer(self._pages, np.float32)
        self.address = int(self.array.ctypes.data)

    @staticmethod
    def at(address: int) -> int:
        return ctypes.c_uint64.from_address(address).value


def pairs(count: int) -> tuple[list[tuple[int, int]], int]:
    """The pairs of `count` CPUs that are measured, and how many of them one after the other.

    Pairs without a CPU in common are measured at the same time.
    """
    if count <= MOST_IN_PAIRS:
        return list(itertools.combinations(range(count), 2)), max(1, 2 * count - 3)
    return list(itertools.pairwise(range(count))), 2


def processor() -> tuple[ModuleType, str]:
    """The code for this processor, and the widest of its vectors that the system lets us use."""
    if not hasattr(os, "sched_setaffinity"):
        raise UnknowableError(f"{platform.system()} lets no thread choose its CPU")
    code = CODE.get(platform.machine())
    if code is None:
        raise UnknowableError(f"processor {platform.machine()}: the probe has no code for it")
    flags = _flags()
    return code, next(name for name, needed in code.VECTORS.items() if flags.issuperset(needed))


def _flags() -> set[str]:
    """What the first CPU can do, as Linux says; sse2, which every x86-64 has, where it does not."""
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as file:
            line = next((line for line in file if line.startswith("flags")), "")
    except OSError:
        line = ""
    return {"sse2", *line.split()}


_placed_loops: dict[str, dict[str, Callable[..., int]]] = {}
_pages: list[object] = []


def _placed(code: ModuleType, vectors: str) -> dict[str, Callable[..., int]]:
    """The loops as functions, made once a process."""
    if vectors not in _placed_loops:
        pieces = {
            name: piece.ljust(-(-len(piece) // 64) * 64, b"\0")
            for name, piece in code.loops(vectors).items()
        }
        try:
            start, page = code_pages.place(b"".join(pieces.values()), "gemmgrid-probe")
        except OSError as error:
            raise UnknowableError(
                f"this system gives a process no new executable memory ({error.strerror}), as "
                "hardened systems do"
            ) from error
        _pages.append(page)
        kind = ctypes.CFUNCTYPE(ctypes.c_uint64, *[ctypes.c_uint64] * 6)
        places = itertools.accumulate(map(len, pieces.values()), initial=start)
        _placed_loops[vectors] = {
            name: kind(place) for name, place in zip(pieces, places, strict=False)
        }
    return _placed_loops[vectors]


def _rounded(rates: np.ndarray) -> list[float]:
    return [float(f"{rate:.4g}") for rate in rates.tolist()]
