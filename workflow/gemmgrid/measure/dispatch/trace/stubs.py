"""The memory that stubs live in: code that is never writable, counters, and notes of arguments.

A stub is made once for each (caller, symbol, function) and kept for the life of the process,
because another thread may be inside it at any time. So switching on and off costs no memory.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import platform
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmgrid.measure import code_pages
from gemmgrid.measure.dispatch.objects.refusals import ExecutableMemoryError, no_executable_memory
from gemmgrid.measure.dispatch.trace import code_aarch64, code_x86_64
from gemmgrid.measure.dispatch.trace.signatures import ADDRESSES, Routine
from gemmgrid.measure.dispatch.trace.stub_layout import Capture, Ring

NOTED_CALLS = 65536
"""Calls of one trace whose arguments are noted; calls beyond are counted only."""
SLOTS = 14
"""Arguments noted at most: gemm in the C interface has 14."""
COUNTERS = 1 << 16
CODE = {"x86_64": code_x86_64, "aarch64": code_aarch64}


@dataclass(frozen=True)
class Stub:
    """A stub in place: where it starts, and its number, which its counter and its notes carry."""

    address: int
    number: int


@dataclass(frozen=True)
class Wanted:
    """A stub to make: `key` tells it from others, `routine` says what to note (None: count)."""

    key: Hashable
    target: int
    routine: Routine | None = None


@dataclass
class Note:
    """Calls through one stub that were alike: 16 bytes for each argument of the first of them."""

    number: int
    arguments: list[bytes]
    count: int = 0


class StubMemory:
    """All stubs of this process. Use the one from `stub_memory()`."""

    def __init__(self) -> None:
        self._code = CODE[platform.machine()]
        self._counters_map = mmap.mmap(-1, COUNTERS * 8)
        self.counters: np.ndarray = np.frombuffer(self._counters_map, np.uint64)
        layout = Ring(0, NOTED_CALLS, SLOTS)
        self._ring_map = mmap.mmap(-1, layout.total_bytes)
        self._ring_bytes: np.ndarray = np.frombuffer(self._ring_map, np.uint8)
        self._ring = Ring(self._ring_bytes.ctypes.data, NOTED_CALLS, SLOTS)
        self._ring_count = self._ring_bytes[:8].view(np.uint64)
        self._made: dict[Hashable, Stub] = {}
        self._captures: dict[int, list[Capture]] = {}
        self._addresses: dict[int, list[int]] = {}
        self._pages: list[Any] = []

    def get(self, wanted: Iterable[Wanted]) -> dict[Hashable, Stub]:
        """Stubs by key; those that exist are used again. Raises ExecutableMemoryError."""
        wanted = list(wanted)
        fresh = {w.key: w for w in wanted if w.key not in self._made}
        if fresh:
            self._make(list(fresh.values()))
        return {w.key: self._made[w.key] for w in wanted}

    def _make(self, fresh: list[Wanted]) -> None:
        first = len(self._made)
        if first + len(fresh) > COUNTERS:
            raise ExecutableMemoryError(f"more than {COUNTERS} functions to watch")
        size = self._code.STUB_BYTES
        code = bytearray()
        for number, one in enumerate(fresh, start=first):
            captures = self._captures_of(one.routine)
            counter = self.counters.ctypes.data + 8 * number
            piece = self._code.stub(number, counter, one.target, self._ring, captures)
            if len(piece) > size:
                raise AssertionError(f"a stub of {len(piece)} bytes does not fit into {size}")
            code += piece.ljust(size, b"\0")
            self._captures[number] = captures
            names = (one.routine.arguments or []) if one.routine else []
            self._addresses[number] = [i for i, name in enumerate(names) if name in ADDRESSES]
        start = self._place(bytes(code))
        for i, one in enumerate(fresh):
            self._made[one.key] = Stub(start + i * size, first + i)

    def _captures_of(self, routine: Routine | None) -> list[Capture]:
        if routine is None:
            return []
        return routine.captures(self._code.INTEGER_REGISTERS, self._code.FLOAT_REGISTERS)

    def _place(self, code: bytes) -> int:
        """Address of `code`, readable and executable."""
        try:
            address, page = code_pages.place(code, "gemmgrid-stubs")
        except OSError as error:
            name = errno.errorcode.get(error.errno or 0, "error")
            raise ExecutableMemoryError(no_executable_memory(name, "mmap")) from error
        self._pages.append(page)
        return address

    def clear_notes(self) -> None:
        """Forget the notes of the last trace."""
        used = min(int(self._ring_count[0]), NOTED_CALLS)
        start = self._ring.header_bytes
        self._ring_bytes[start : start + used * self._ring.record_bytes] = 0
        self._ring_count[0] = 0

    def notes(self) -> list[Note]:
        """The noted calls, those that differ only in their addresses put together.

        One product may make tens of thousands of calls, so they are compared as bytes and only
        then looked at.
        """
        used = min(int(self._ring_count[0]), NOTED_CALLS)
        start, size = self._ring.header_bytes, self._ring.record_bytes
        records = self._ring_bytes[start : start + used * size].reshape(used, size).copy()
        keys = records.copy()
        numbers = records[:, :4].copy().view(np.uint32)[:, 0] if used else np.empty(0, np.uint32)
        for number in set(numbers.tolist()):
            rows = numbers == number
            for slot in self._addresses.get(number, ()):
                keys[rows, Ring.offset(slot) : Ring.offset(slot + 1)] = 0
        found: dict[bytes, Note] = {}
        for i in range(used):
            number = int(numbers[i])
            complete = records[i, 4]
            if not complete or number not in self._captures:
                continue
            key = keys[i].tobytes()
            if key not in found:
                raw = records[i].tobytes()
                places = [Ring.offset(slot) for slot in range(len(self._captures[number]))]
                found[key] = Note(number, [raw[p : p + 16] for p in places])
            found[key].count += 1
        return list(found.values())


_memory: StubMemory | None = None


def stub_memory() -> StubMemory:
    """The stubs of this process."""
    global _memory
    if _memory is None:
        _memory = StubMemory()
    return _memory


def address_of(function: Any) -> int:
    """The address that a ctypes function calls."""
    return ctypes.c_void_p.from_address(ctypes.addressof(function)).value or 0
