"""The few functions of the dynamic loader that are needed, called with the interpreter's lock held.

With the lock held no other Python thread can load or unload anything in between.
"""

from __future__ import annotations

import ctypes
import os

_process = ctypes.PyDLL(None)
_dlopen = _process.dlopen
_dlopen.argtypes, _dlopen.restype = [ctypes.c_char_p, ctypes.c_int], ctypes.c_void_p
_dlclose = _process.dlclose
_dlclose.argtypes, _dlclose.restype = [ctypes.c_void_p], ctypes.c_int
_dlsym = _process.dlsym
_dlsym.argtypes, _dlsym.restype = [ctypes.c_void_p, ctypes.c_char_p], ctypes.c_void_p
_dlinfo = _process.dlinfo
_dlinfo.argtypes, _dlinfo.restype = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p], ctypes.c_int
_LINK_MAP = 2
"""RTLD_DI_LINKMAP: dlinfo gives the loader's own entry, which starts with the base address."""


def hold(path: str | None) -> int | None:
    """Keep a loaded object loaded; its handle, or None where it is not loaded (any more).

    Never loads anything. None as path means the program itself and all that is global in it.
    """
    name = None if path is None else os.fsencode(path)
    handle: int | None = _dlopen(name, os.RTLD_NOLOAD | os.RTLD_LAZY)
    return handle


def release(handle: int) -> None:
    """Give up a handle from `hold`."""
    _dlclose(handle)


def base_of(handle: int) -> int | None:
    """Where the object of a handle lies."""
    entry = ctypes.c_void_p()
    if _dlinfo(handle, _LINK_MAP, ctypes.byref(entry)) != 0 or not entry.value:
        return None
    return ctypes.c_uint64.from_address(entry.value).value


def lookup(path: str | None, symbol: str) -> int | None:
    """The address of a symbol as seen from a loaded object and what it brought along."""
    handle = hold(path)
    if not handle:
        return None
    try:
        address: int | None = _dlsym(handle, symbol.encode())
        return address
    finally:
        release(handle)
