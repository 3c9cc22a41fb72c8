"""This process's memory map, and writing single words of it with their protection put back."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gemmgrid.measure.dispatch.objects.support import ProtectionError

READ, WRITE, EXECUTE = 1, 2, 4
WORD = 8


@dataclass(frozen=True)
class Region:
    """One line of /proc/self/maps."""

    start: int
    end: int
    protection: int
    path: str


class MemoryMap:
    """The regions of this process at one moment."""

    def __init__(self) -> None:
        self._lines = Path("/proc/self/maps").read_text().splitlines()
        self._starts = [int(line[: line.index("-")], 16) for line in self._lines]
        self._parsed: dict[int, Region] = {}

    def at(self, address: int) -> Region | None:
        position = bisect_right(self._starts, address) - 1
        if position < 0:
            return None
        if position not in self._parsed:  # few of the hundreds of lines are ever asked for
            self._parsed[position] = _region(self._lines[position])
        region = self._parsed[position]
        return region if address < region.end else None


def _region(line: str) -> Region:
    span, flags, _offset, _device, _inode, *path = line.split(maxsplit=5)
    start, end = (int(part, 16) for part in span.split("-"))
    protection = sum(
        bit for bit, letter in ((READ, "r"), (WRITE, "w"), (EXECUTE, "x")) if letter in flags
    )
    return Region(start, end, protection, path[0] if path else "")


def read_word(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value


class WritablePages:
    """Makes the pages of some words writable for the time of a `with`, then as they were.

    The loader makes the tables of most libraries read-only once they are filled (RELRO). Only pages
    of data are touched: a page with code in it is never made writable.
    """

    def __init__(self, addresses: Iterable[int]) -> None:
        memory = MemoryMap()
        self._pages: dict[int, int] = {}
        self.refused: set[int] = set()
        """Words that must not be written: unmapped, unaligned, or in a page with code."""
        for address in addresses:
            region = memory.at(address)
            if region is None or address % WORD or region.protection & EXECUTE:
                self.refused.add(address)
            elif not region.protection & WRITE:
                self._pages[address & ~(mmap.PAGESIZE - 1)] = region.protection

    def __enter__(self) -> WritablePages:
        opened: list[int] = []
        try:
            for page, protection in self._pages.items():
                _protect(page, protection | WRITE)
                opened.append(page)
        except ProtectionError:
            for page in opened:
                _protect(page, self._pages[page])
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for page, protection in self._pages.items():
            _protect(page, protection)


def write_word(address: int, value: int) -> None:
    """One aligned 8-byte store: another thread sees the old address or the new one, never a mix."""
    ctypes.c_uint64.from_address(address).value = value


_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def _protect(page: int, protection: int) -> None:
    if _libc.mprotect(page, mmap.PAGESIZE, protection) != 0:
        code = ctypes.get_errno()
        raise ProtectionError(
            f"the system refused to change the protection of a page of addresses "
            f"(mprotect: {errno.errorcode.get(code, code)}, {os.strerror(code)}), so calls through "
            f"it cannot be traced"
        )
