"""What the dynamic linker knows: files that are mapped, symbols that they export, who provides one.

Everything goes through `ctypes` on the linker's own functions, so it works in any environment that
has Python, and asks the very process that measures. macOS parts are written from Apple's manual
pages and have not yet run on that system.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path


class _DlInfo(ctypes.Structure):
    """`Dl_info` of dladdr(3)."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


@dataclass(frozen=True)
class Symbol:
    """An exported function: its name, its address, and the real path of the file it lies in."""

    name: str
    address: int
    file: str


def mapped_files() -> list[str]:
    """Real paths of the shared libraries in this process, in the order of their addresses."""
    found = _dyld_images() if sys.platform == "darwin" else _linux_maps()
    return list(dict.fromkeys(found))


def opened(file: str) -> ctypes.CDLL | None:
    """A handle of a library that is already in this process, or None; never loads anything."""
    try:
        return ctypes.CDLL(file, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:  # the linker itself, a library of another namespace, a vdso
        return None


def exported(handle: ctypes.CDLL, name: str) -> Symbol | None:
    """The symbol as this handle resolves it: in its own file, or in one that it depends on."""
    try:
        function = handle[name]
    except AttributeError:
        return None
    address = ctypes.cast(function, ctypes.c_void_p).value
    info = _DlInfo()
    if not address or not _dladdr()(address, ctypes.byref(info)) or not info.file:
        return None
    return Symbol(name, address, os.path.realpath(os.fsdecode(info.file)))


def provider(file: str, names: Iterable[str]) -> Symbol | None:
    """The first of these symbols that the mapped library `file` would be bound to, or None.

    The global scope (the program, and what LD_PRELOAD put there) comes first, as it does for the
    linker; then the library's own dependencies, breadth first.
    """
    handle = opened(file)
    scopes = [ctypes.CDLL(None), *([handle] if handle else [])]
    for scope in scopes:
        for name in names:
            symbol = exported(scope, name)
            if symbol:
                return symbol
    return None


@cache
def _dladdr() -> Callable[..., int]:
    function = ctypes.CDLL(None).dladdr
    function.argtypes = [ctypes.c_void_p, ctypes.POINTER(_DlInfo)]
    function.restype = ctypes.c_int
    return function


def _linux_maps() -> Iterable[str]:
    text = Path("/proc/self/maps").read_text(errors="surrogateescape")
    for line in text.splitlines():
        fields = line.split(None, 5)
        if len(fields) == 6 and fields[5].startswith("/") and ".so" in Path(fields[5]).name:
            yield fields[5]


def _dyld_images() -> Iterable[str]:
    """dyld(3): system libraries live in the shared cache, so their paths may not exist as files."""
    dyld = ctypes.CDLL(None)
    name = dyld._dyld_get_image_name
    name.argtypes, name.restype = [ctypes.c_uint32], ctypes.c_char_p
    for index in range(dyld._dyld_image_count()):
        image = name(index)
        if image:
            yield os.path.realpath(os.fsdecode(image))
