"""What can be asked of any BLAS library, and how its file is recognised."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from gemmgrid.measure.libraries.linker import exported
from gemmgrid.measure.libraries.names import OWN_AFFIXES


@dataclass
class Blas:
    """One BLAS library in this process. Subclasses say what its family's functions tell."""

    family: ClassVar[str] = ""
    name: ClassVar[str] = ""
    mark: ClassVar[str] = ""
    """A function that only this family has."""
    getter: ClassVar[str] = ""
    setter: ClassVar[str] = ""
    """Functions that tell and set its number of threads, if it has such."""
    count: ClassVar[Any] = ctypes.c_int
    """The C type of that number."""

    file: str
    handle: ctypes.CDLL
    affixes: tuple[str, str] = ("", "")
    unknown: dict[str, str] = field(default_factory=dict)

    @classmethod
    def recognise(cls, file: str, handle: ctypes.CDLL) -> Blas | None:
        """This family's library, if `file` (a real path) is one."""
        found = affixes(file, handle, cls.mark) if cls.mark else None
        return cls(file, handle, found) if found else None

    def version(self) -> str | None:
        return None

    def core(self) -> str | None:
        """The architecture whose kernels it chose."""
        return None

    def threading(self) -> str | None:
        """Its threading layer: none, pthreads, openmp …"""
        return None

    def interface(self) -> str | None:
        """lp64 (32-bit sizes) or ilp64 (64-bit)."""
        return None

    def threads(self) -> int | None:
        """Threads that it would use now."""
        return self.ask(self.getter, self.count) if self.getter else None

    def set_threads(self, threads: int) -> bool:
        """Ask for that many threads; False where the library has no function for it."""
        function = self.function(self.setter, None, self.count) if self.setter else None
        if function:
            function(threads)
        return function is not None

    def to_json(self) -> dict[str, Any]:
        """Everything above; what stays null has its reason under "unknown"."""
        facts: dict[str, str | None] = {
            "version": self.version(),
            "core": self.core(),
            "threading": self.threading(),
            "interface": self.interface(),
        }
        reasons = {
            key: self.unknown.get(key, f"this {self.name} exports no function that tells it")
            for key, value in facts.items()
            if value is None
        }
        identity = {"name": self.name, "family": self.family, "file": self.file}
        return {**identity, **facts, "unknown": reasons}

    def function(self, name: str, restype: Any, *argtypes: Any) -> Callable[..., Any] | None:
        """The library's own function of that name, with its prefix and suffix, or None."""
        try:
            function = self.handle["".join((self.affixes[0], name, self.affixes[1]))]
        except AttributeError:
            return None
        function.restype, function.argtypes = restype, list(argtypes)
        return function

    def ask(self, name: str, restype: Any = ctypes.c_int) -> Any:
        """The answer of a function without arguments, text decoded, or None if it is missing."""
        function = self.function(name, restype)
        value = function() if function else None
        return value.decode(errors="replace") if isinstance(value, bytes) else value


def affixes(file: str, handle: ctypes.CDLL, name: str) -> tuple[str, str] | None:
    """Prefix and suffix under which the library has a family's function, or None.

    It must export the function itself; or export gemm and depend on a library that does, as
    Debian's libblas.so.3 of OpenBLAS: gemm in front, the rest in libopenblas.so.0.
    """
    for prefix, suffix in OWN_AFFIXES:
        symbol = exported(handle, f"{prefix}{name}{suffix}")
        if symbol and (symbol.file == file or has_gemm(file, handle)):
            return prefix, suffix
    return None


def exports(file: str, handle: ctypes.CDLL, name: str) -> bool:
    """Whether the symbol lies in this very file, not in one that it depends on."""
    symbol = exported(handle, name)
    return symbol is not None and symbol.file == file


def has_gemm(file: str, handle: ctypes.CDLL) -> bool:
    return exports(file, handle, "sgemm_") or exports(file, handle, "cblas_sgemm")


def first_version(text: str) -> str | None:
    """The first thing in a text that looks like a version."""
    found = re.search(r"\d+(?:\.\d+)+", text)
    return found[0] if found else None
