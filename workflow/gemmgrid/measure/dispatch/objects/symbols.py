"""Names for addresses: the symbol tables of the files behind the loaded objects.

`.symtab` holds every function, local ones included; a stripped file has only `.dynsym`, what it
exports. Kernels of BLAS libraries are usually local.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import struct
from bisect import bisect_right
from functools import cached_property
from pathlib import Path

import numpy as np

from gemmgrid.measure.dispatch.objects.elf import SYMBOL, LoadedObject
from gemmgrid.measure.libraries.linker import opened

SHT_SYMTAB, SHT_DYNSYM = 2, 11
STT_FUNC, STT_GNU_IFUNC = 2, 10
SECTION = np.dtype("<u4, <u4, <u8, <u8, <u8, <u8, <u4, <u4, <u8, <u8")
SECTION.names = ("name", "type", "flags", "address", "offset", "size", "link", "info",
                 "align", "entry")  # fmt: skip


class SymbolTable:
    """The symbols of one ELF file. Addresses are relative to where the file is loaded."""

    def __init__(self, path: str) -> None:
        """OSError where the file cannot be read; a file without sections has no symbols."""
        with Path(path).open("rb") as file:
            self._data = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        self.stripped = True
        """No `.symtab`: local functions have no name."""
        self._starts: list[int] = []
        tables = []
        for symbols, strings in self._tables():
            live = symbols[(symbols["section"] != 0) & (symbols["value"] != 0)]
            tables.append((live, np.full(len(live), strings, np.int64)))
            self._starts.append(strings)
        self._symbols = np.concatenate([t[0] for t in tables] or [np.empty(0, SYMBOL)])
        self._strings = np.concatenate([t[1] for t in tables] or [np.empty(0, np.int64)])

    def _tables(self) -> list[tuple[np.ndarray, int]]:
        """(symbols, file offset of their strings), `.symtab` last so that it wins."""
        if self._data[:5] != b"\x7fELF\x02":
            return []
        (offset,) = struct.unpack_from("<Q", self._data, 40)
        entry, count = struct.unpack_from("<HH", self._data, 58)
        if not count or entry != SECTION.itemsize or offset + count * entry > len(self._data):
            return []
        sections = np.frombuffer(self._data, SECTION, count, offset)
        found = []
        for kind in (SHT_DYNSYM, SHT_SYMTAB):
            for section in sections[sections["type"] == kind]:
                amount = int(section["size"]) // SYMBOL.itemsize
                strings = int(sections["offset"][int(section["link"])])
                table = np.frombuffer(self._data, SYMBOL, amount, int(section["offset"]))
                found.append((table, strings))
                self.stripped = self.stripped and kind != SHT_SYMTAB
        return found

    @cached_property
    def _functions(self) -> tuple[np.ndarray, np.ndarray]:
        """Indexes of the functions ordered by address, and their addresses.

        Of several names for one address the last in table order wins: the local, full one.
        """
        kind = self._symbols["info"] & 15
        chosen = np.flatnonzero((kind == STT_FUNC) | (kind == STT_GNU_IFUNC))
        order = np.argsort(self._symbols["value"][chosen], kind="stable")
        indexes = chosen[order]
        return indexes, self._symbols["value"][indexes]

    def function_at(self, address: int) -> str | None:
        """The function that starts exactly at this address."""
        position, start, _ = self._before(address)
        return self._function_name(position) if start == address else None

    def function_around(self, address: int) -> str | None:
        """The function whose code this address lies in, or None.

        Kernels written in assembly often have size 0: those reach to the next function. Where a
        size is known the address must lie within it, else a stripped library would give the name
        of whatever exported function comes before.
        """
        position, start, size = self._before(address)
        if start is None or (size and address >= start + size):
            return None
        return self._function_name(position)

    def _before(self, address: int) -> tuple[int, int | None, int]:
        """Position, start and size of the last function that starts at this address or before."""
        indexes, values = self._functions
        position = int(np.searchsorted(values, np.uint64(address), side="right")) - 1
        if position < 0:
            return position, None, 0
        return position, int(values[position]), int(self._symbols["size"][indexes[position]])

    def find(self, name: str) -> tuple[int, int] | None:
        """(address, size) of a symbol of any kind, or None."""
        for index in self._positions(name.encode() + b"\0"):
            return int(self._symbols["value"][index]), int(self._symbols["size"][index])
        return None

    def objects_at(self, address: int) -> list[tuple[str, int]]:
        """(name, size) of every symbol that starts at this address."""
        matches = np.flatnonzero(self._symbols["value"] == address)
        return [(self._name(i), int(self._symbols["size"][i])) for i in matches.tolist()]

    def _positions(self, needle: bytes) -> list[int]:
        """Indexes of the symbols with this name; names may share their ends in the file."""
        offsets = []
        for strings in {int(start) for start in self._starts}:
            position = self._data.find(needle, strings)
            while position >= 0:
                offsets.append(position)
                position = self._data.find(needle, position + 1)
        absolute = self._strings + self._symbols["name"]
        return [int(i) for offset in offsets for i in np.flatnonzero(absolute == offset)]

    def _function_name(self, position: int) -> str:
        return self._name(int(self._functions[0][position]))

    def _name(self, index: int) -> str:
        start = int(self._strings[index]) + int(self._symbols["name"][index])
        return self._data[start : self._data.find(b"\0", start)].decode("latin-1")


_tables: dict[tuple[str, int], SymbolTable] = {}


def symbol_table(path: str) -> SymbolTable:
    """The table of a file, read once; OSError where it cannot be read."""
    key = (path, os.stat(path).st_ino)  # noqa: PTH116
    if key not in _tables:
        _tables[key] = SymbolTable(path)
    return _tables[key]


class AddressNames:
    """Tells which object and function each address of this process belongs to."""

    def __init__(self, objects: list[LoadedObject]) -> None:
        spans = [(a, z, o) for o in objects for a, z, x in o.segments if x]
        self._spans = sorted(spans, key=lambda span: span[0])
        self._starts = [span[0] for span in self._spans]

    def object_at(self, address: int) -> LoadedObject | None:
        position = bisect_right(self._starts, address) - 1
        if position < 0 or address >= self._spans[position][1]:
            return None
        return self._spans[position][2]

    def function(self, address: int) -> tuple[LoadedObject | None, str | None]:
        """(object, function); (None, None) is code that was made at run time, or unknown."""
        loaded = self.object_at(address)
        if loaded is None:
            return None, None
        try:
            name = symbol_table(loaded.path).function_around(address - loaded.base)
        except OSError:
            name = None
        return loaded, readable(name) if name else None


def readable(symbol: str) -> str:
    """A C++ symbol without its arguments and templates; any other symbol as it is.

    >>> readable("_ZN3mlx4core9simd_gemmINS0_12_MLX_Float16EfEEvPKT_S5_PS3_bbiiiff")
    'mlx::core::simd_gemm'
    """
    if not symbol.startswith("_Z"):
        return symbol
    full = _demangle(symbol)
    return shorten(full) if full else symbol


def shorten(full: str) -> str:
    """The qualified name in a demangled C++ signature."""
    text = full.replace("(anonymous namespace)::", "").replace("operator()", "operator")
    flat = re.sub(r"\[abi:\w+\]", "", text)
    while True:  # innermost template arguments first
        smaller = re.sub(r"<[^<>]*>", "", flat)
        if smaller == flat:
            break
        flat = smaller
    flat = flat.split("(", 1)[0].strip()
    return flat.rsplit(" ", 1)[-1] or full[:80]


def _demangle(symbol: str) -> str | None:
    """By the C++ runtime that this process has loaded anyway, or None where it has none."""
    runtime = opened("libstdc++.so.6") or opened("libc++abi.so.1")
    if runtime is None:
        return None
    demangle = runtime["__cxa_demangle"]
    demangle.restype = ctypes.c_void_p
    pointer = demangle(symbol.encode(), None, None, None)
    if not pointer:
        return None
    try:
        return ctypes.string_at(pointer).decode("utf-8", "replace")
    finally:
        ctypes.CDLL(None).free(ctypes.c_void_p(pointer))
