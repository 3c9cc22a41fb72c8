"""What the dynamic linker knows: files that are mapped, symbols that they export, who provides one.

Everything goes through `ctypes` on the linker's own functions, so it works in any environment that
has Python, and asks the very process that measures. macOS parts are written from Apple's manual
pages and have not yet run on that system.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gemmgrid.measure.libraries.memory_map import MemoryMap


class _DlInfo(ctypes.Structure):
    """`Dl_info` of dladdr(3)."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


# PyDLL keeps the interpreter's lock: no other Python thread can load or unload anything meanwhile.
_linker = ctypes.PyDLL(None)
_linker.dlopen.argtypes, _linker.dlopen.restype = [ctypes.c_char_p, ctypes.c_int], ctypes.c_void_p
_linker.dlclose.argtypes = [ctypes.c_void_p]
_linker.dlsym.argtypes, _linker.dlsym.restype = [ctypes.c_void_p, ctypes.c_char_p], ctypes.c_void_p
_linker.dladdr.argtypes = [ctypes.c_void_p, ctypes.POINTER(_DlInfo)]
_RTLD_DI_LINKMAP = 2
"""For dlinfo (glibc): the loader's own entry of an object, which starts with its base address."""


@dataclass(frozen=True)
class Symbol:
    """An exported function: its name, its address, and the real path of the file it lies in."""

    name: str
    address: int
    file: str


def mapped_files() -> list[str]:
    """Real paths of the shared libraries in this process, in the order of their addresses."""
    if sys.platform == "darwin":
        return list(dict.fromkeys(_dyld_images()))
    paths = dict.fromkeys(region.path for region in MemoryMap())
    return [path for path in paths if path.startswith("/") and ".so" in Path(path).name]


def opened(file: str) -> ctypes.CDLL | None:
    """A handle of a library that is already in this process, or None; never loads anything."""
    try:
        return ctypes.CDLL(file, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:  # the linker itself, a library of another namespace, a vdso
        return None


def exported(handle: ctypes.CDLL, name: str) -> Symbol | None:
    """The symbol as this handle resolves it: in its own file, or in one that it depends on."""
    address = _linker.dlsym(handle._handle, name.encode())
    info = _DlInfo()
    if not address or not _linker.dladdr(address, ctypes.byref(info)) or not info.file:
        return None
    return Symbol(name, address, os.path.realpath(os.fsdecode(info.file)))


def provider(file: str, names: Iterable[str], platform: str = sys.platform) -> Symbol | None:
    """The first of these symbols that the mapped library `file` would be bound to, or None.

    ELF looks into the global scope first (the program, and what LD_PRELOAD put there), then into
    the library's own dependencies, breadth first. Mach-O notes with each imported symbol the
    library that has it ("two-level namespace", ld(1) of macOS), so what the whole process has is
    the last resort there.
    """
    handle = opened(file)
    scopes = [ctypes.CDLL(None), *([handle] if handle else [])]
    if platform == "darwin":
        scopes.reverse()
    return next(
        (found for scope in scopes for name in names if (found := exported(scope, name))), None
    )


def hold(path: str | None) -> int | None:
    """Keep a loaded object loaded; its handle, or None where it is not loaded (any more).

    Never loads anything. None as path means the program itself and all that is global in it.
    """
    name = None if path is None else os.fsencode(path)
    handle: int | None = _linker.dlopen(name, os.RTLD_NOLOAD | os.RTLD_LAZY)
    return handle


def release(handle: int) -> None:
    """Give up a handle from `hold`."""
    _linker.dlclose(handle)


def base_of(handle: int) -> int | None:
    """Where the object of a handle from `hold` lies (glibc)."""
    entry, kind = ctypes.c_void_p(), ctypes.c_int(_RTLD_DI_LINKMAP)
    failed = _linker.dlinfo(ctypes.c_void_p(handle), kind, ctypes.byref(entry))
    return None if failed or not entry.value else ctypes.c_uint64.from_address(entry.value).value


def lookup(path: str | None, symbol: str) -> int | None:
    """The address of a symbol as seen from a loaded object and what it brought along."""
    handle = hold(path)
    if not handle:
        return None
    try:
        address: int | None = _linker.dlsym(handle, symbol.encode())
        return address
    finally:
        release(handle)


def _dyld_images() -> Iterable[str]:
    """dyld(3): system libraries live in the shared cache, so their paths may not exist as files."""
    name = _linker._dyld_get_image_name
    name.argtypes, name.restype = [ctypes.c_uint32], ctypes.c_char_p
    for index in range(_linker._dyld_image_count()):
        image = name(index)
        if image:
            yield os.path.realpath(os.fsdecode(image))
