"""Reading and writing single words of this process, with their pages' protection put back."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from collections.abc import Iterable

from gemmgrid.measure.dispatch.objects.refusals import ProtectionError
from gemmgrid.measure.libraries.memory_map import EXECUTE, WRITE, MemoryMap

WORD = 8


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
