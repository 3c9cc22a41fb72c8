"""The programs and libraries in this process, read from memory: what they import, and where.

Every call from one ELF object into another goes through a word in the caller's global offset table
that holds the address of the callee. This file finds these words; `patch` writes to them.
Format: System V ABI, gABI chapter 5, and its x86-64 and AArch64 supplements.
"""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gemmgrid.measure.dispatch.objects.refusals import ExecutableMemoryError, no_executable_memory
from gemmgrid.measure.libraries.memory_map import EXECUTE, MemoryMap, Region

PT_LOAD, PT_DYNAMIC = 1, 2
PF_X = 1
ET_DYN = 3
DT_NULL, DT_PLTRELSZ, DT_STRTAB, DT_SYMTAB, DT_RELA, DT_RELASZ = 0, 2, 5, 6, 7, 8
DT_STRSZ, DT_PLTREL, DT_JMPREL, DT_RELACOUNT = 10, 20, 23, 0x6FFFFFF9

# Relocations that put the address of a symbol into a word: in the PLT's table, in the global offset
# table, in a table of function pointers. (R_X86_64_JUMP_SLOT, GLOB_DAT, 64 and their counterparts.)
ADDRESS_RELOCATIONS = {"x86_64": (7, 6, 1), "aarch64": (1026, 1025, 257)}

RELA = np.dtype([("offset", "<u8"), ("info", "<u8"), ("addend", "<i8")])
SYMBOL = np.dtype("<u4, u1, u1, <u2, <u8, <u8")
SYMBOL.names = ("name", "info", "other", "section", "value", "size")

_PROGRAM = os.path.realpath("/proc/self/exe")


class _ProgramHeader(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_uint32) for name in ("type", "flags")),
        *((name, ctypes.c_uint64) for name in ("offset", "vaddr", "paddr")),
        *((name, ctypes.c_uint64) for name in ("filesz", "memsz", "align")),
    )


class _ObjectInfo(ctypes.Structure):
    _fields_ = (
        ("addr", ctypes.c_uint64),
        ("name", ctypes.c_char_p),
        ("phdr", ctypes.POINTER(_ProgramHeader)),
        ("phnum", ctypes.c_uint16),
        ("adds", ctypes.c_ulonglong),
        ("subs", ctypes.c_ulonglong),
    )


@dataclass(frozen=True)
class LoadedObject:
    """One program or library in this process; addresses are absolute."""

    path: str
    """As the loader knows it; the program itself has its real path instead of an empty name."""
    base: int
    dynamic: int
    segments: tuple[tuple[int, int, bool], ...] = field(repr=False)
    """(start, end, executable) of what is mapped."""
    main: bool = False

    @property
    def name(self) -> str:
        return Path(self.path).name

    def contains(self, address: int, executable: bool = False) -> bool:
        return any(a <= address < z and (x or not executable) for a, z, x in self.segments)


@dataclass(frozen=True)
class Import:
    """One word of an object that holds the address of a symbol.

    `own` is the symbol's address inside the object itself, where it defines it too, else None.
    """

    symbol: str
    address: int
    own: int | None


def loaded_objects() -> list[LoadedObject]:
    """All objects with a dynamic section, in load order. Raises ExecutableMemoryError."""
    return _iterate()[0]


def unload_count() -> int:
    """How many objects this process has unloaded; a change means that addresses went stale."""
    return _iterate()[1]


def named_objects() -> list[LoadedObject]:
    """Loaded objects as well as this system lets us find them."""
    try:
        return loaded_objects()
    except ExecutableMemoryError:
        return mapped_objects()


def mapped_objects() -> list[LoadedObject]:
    """The same from the memory map alone, good for naming addresses: without dynamic sections.

    Asking the loader needs a callback, and a callback needs executable memory, which hardened
    systems refuse.
    """
    files: dict[str, list[Region]] = {}
    for region in MemoryMap():
        if region.path.startswith("/"):
            files.setdefault(region.path, []).append(region)
    found = []
    for file, regions in files.items():
        spans = tuple((r.start, r.end, bool(r.protection & EXECUTE)) for r in regions)
        base = _base(file, regions[0])
        if base is not None:
            found.append(LoadedObject(file, base, 0, spans))
    return found


def _base(file: str, first: Region) -> int | None:
    """Where the file's address 0 lies: at its first byte, or for a program of fixed place at 0."""
    try:
        with Path(file).open("rb") as opened:
            head = opened.read(18)
    except OSError:
        return None
    if head[:5] != b"\x7fELF\x02" or first.offset:
        return None
    return first.start if head[16] == ET_DYN else 0


def _iterate() -> tuple[list[LoadedObject], int]:
    found: list[LoadedObject] = []
    unloaded = 0
    prototype = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.POINTER(_ObjectInfo), ctypes.c_size_t, ctypes.c_void_p
    )

    def visit(pointer: ctypes._Pointer[_ObjectInfo], _size: int, _data: int) -> int:
        nonlocal unloaded
        info = pointer.contents
        unloaded = info.subs
        headers = [info.phdr[i] for i in range(info.phnum)]
        dynamic = next((h.vaddr for h in headers if h.type == PT_DYNAMIC), None)
        path = os.fsdecode(info.name or b"")
        from_kernel = path.startswith("linux-")  # the page of code that the kernel lends
        if dynamic is not None and not from_kernel:
            found.append(
                LoadedObject(
                    path or _PROGRAM,
                    info.addr,
                    info.addr + dynamic,
                    tuple(
                        (info.addr + h.vaddr, info.addr + h.vaddr + h.memsz, bool(h.flags & PF_X))
                        for h in headers
                        if h.type == PT_LOAD
                    ),
                    main=not path,
                )
            )
        return 0

    # PyDLL keeps the interpreter's lock: another thread that waits for it inside dlopen while we
    # hold the loader's lock would never let the callback run.
    try:
        callback = prototype(visit)
    except MemoryError:
        raise ExecutableMemoryError(no_executable_memory("MemoryError", "ctypes")) from None
    ctypes.PyDLL(None).dl_iterate_phdr(callback, None)
    return found, unloaded


def imports(loaded: LoadedObject, wanted: Callable[[str], bool]) -> list[Import]:
    """The words of `loaded` that hold addresses of the `wanted` symbols.

    Reads the object's dynamic section in memory, so it needs no file, section headers or symbols
    other than those that the loader itself needs: a stripped library is no obstacle.
    """
    tags = _dynamic_tags(loaded)
    if DT_SYMTAB not in tags or DT_STRTAB not in tags or DT_STRSZ not in tags:
        return []
    strings = ctypes.string_at(tags[DT_STRTAB], tags[DT_STRSZ])
    kinds = ADDRESS_RELOCATIONS[platform.machine()]
    tables = []
    if DT_RELA in tags and DT_RELASZ in tags:
        # The first DT_RELACOUNT entries only add the base address: no symbols there.
        skipped = tags.get(DT_RELACOUNT, 0)
        tables.append(_view(tags[DT_RELA], tags[DT_RELASZ], RELA)[skipped:])
    if DT_JMPREL in tags and DT_PLTRELSZ in tags and tags.get(DT_PLTREL) == DT_RELA:
        tables.append(_view(tags[DT_JMPREL], tags[DT_PLTRELSZ], RELA))
    found: dict[int, Import] = {}
    for table in tables:
        info = table["info"]
        # Not np.isin: it would import NumPy's masked arrays, at 50 ms.
        matching = np.logical_or.reduce([info & 0xFFFFFFFF == kind for kind in kinds])
        chosen = matching & (info >> 32 > 0) & (table["addend"] == 0)
        indexes = (info[chosen] >> 32).astype(np.int64)
        if not len(indexes):
            continue
        symbols = _view(tags[DT_SYMTAB], (int(indexes.max()) + 1) * SYMBOL.itemsize, SYMBOL)
        names: dict[int, str | None] = {}
        for index, offset in zip(indexes.tolist(), table["offset"][chosen].tolist(), strict=True):
            if index not in names:
                start = int(symbols["name"][index])
                name = strings[start : strings.index(b"\0", start)].decode("latin-1")
                names[index] = name if wanted(name) else None
            symbol = names[index]
            if symbol is not None:
                defined = int(symbols["section"][index]) != 0
                own = loaded.base + int(symbols["value"][index]) if defined else None
                address = loaded.base + offset
                found[address] = Import(symbol, address, own)
    return list(found.values())


def _dynamic_tags(loaded: LoadedObject) -> dict[int, int]:
    tags: dict[int, int] = {}
    address = loaded.dynamic
    while True:
        tag, value = (ctypes.c_uint64 * 2).from_address(address)
        if tag == DT_NULL:
            break
        tags.setdefault(tag, value)
        address += 16
    # glibc has added the base to the pointers of most objects, but not to those of a read-only one.
    for tag in (DT_STRTAB, DT_SYMTAB, DT_RELA, DT_JMPREL):
        if tag in tags and not loaded.contains(tags[tag]):
            tags[tag] += loaded.base
            if not loaded.contains(tags[tag]):
                del tags[tag]
    return tags


def _view(address: int, size: int, dtype: np.dtype[np.void]) -> np.ndarray:
    """A NumPy view of this process's memory; nothing is copied."""
    memory: Any = (ctypes.c_char * size).from_address(address)
    return np.frombuffer(memory, dtype)
