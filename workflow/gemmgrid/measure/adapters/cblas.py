"""A BLAS library called directly: `cblas_?gemm`, `cblas_?gemv`, `cblas_?dot` through ctypes.

Every argument is converted once, beforehand: a call then costs about 0.5 µs, where plain Python
numbers would cost 1.5. The functions have no argtypes for that reason, so this file alone vouches
for their signatures; `_Library.integer` knows how wide the library's integers are.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gemmgrid.measure import libraries
from gemmgrid.measure.adapters import base
from gemmgrid.measure.adapters.base import (
    BlasAdapter,
    Call,
    first_over,
    nan_of,
    on_host,
    placed,
    refuse,
)
from gemmgrid.measure.libraries.find import PATTERNS, find
from gemmgrid.measure.libraries.names import CBLAS_SPELLINGS
from gemmgrid.records.cell import Cell

if TYPE_CHECKING:
    from gemmgrid.measure.invocation.operands import Operands

LETTERS = {"float16": "h", **base.LETTERS}
LAYOUTS = {"C": ("RowMajor", 101), "F": ("ColMajor", 102)}
TRANSPOSES = {"n": ("NoTrans", 111), "t": ("Trans", 112), "c": ("ConjTrans", 113)}
REALS = {"s": ctypes.c_float, "d": ctypes.c_double}
INTERFACES = {"lp64": ctypes.c_int32, "ilp64": ctypes.c_int64}


class Pointer(ctypes.c_void_p):
    """The address of an array, which it keeps alive."""

    array: np.ndarray


class CblasAdapter(BlasAdapter):
    """options: library (one of the families below) or path; interface where nothing else tells."""

    library = "cblas"
    devices = ("cpu",)
    packages = ("numpy", "scipy-openblas64", "mkl", "intel-openmp")
    unknown_blas = "the library is of no family that is known"
    known_options: ClassVar = {
        "library": " | ".join(PATTERNS),
        "path": "path of a shared library that exports cblas_sgemm",
        "interface": "lp64 | ilp64: the width of its integers, where the library does not tell",
    }

    def __init__(self, device: str, options: dict[str, Any]) -> None:
        super().__init__(device, options)
        if not options.get("path") and not options.get("library"):
            raise ValueError("adapter cblas: options must name a `library` or a `path`")
        interface = options.get("interface")
        if interface not in (None, *INTERFACES):
            allowed = ", ".join(INTERFACES)
            raise ValueError(f"adapter cblas: interface {interface!r} is none of {allowed}")
        path = options.get("path") or find(options["library"])
        self._handle = ctypes.CDLL(path)
        self._interface, self._affixes = _spelling(self._handle, path, interface)
        names = ["cblas_sgemm".join(self._affixes)]
        self._blas = libraries.serving(os.path.realpath(path), names)
        if self._blas and self._blas.family == "mkl":
            self._interface = _mkl_interface(self._handle, interface)
        self._constants: dict[tuple[str, Any], Any] = {}

    def _unsupported(self, cell: Cell) -> str | None:
        options = cell.options
        if cell.dtype not in LETTERS:
            return f"CBLAS has no {cell.dtype} routine whose result is {cell.dtype}"
        if self._function(cell) is None:
            return f"this library exports no {_routine(cell)}"
        if options.batch > 1:
            return f"{_routine(cell)} multiplies one pair of matrices in a call"
        if options.alloc:
            return "CBLAS writes into memory that the caller gives: it allocates no result"
        size = first_over(2**31 - 1, [size + options.pad for size in cell.shape])
        if size and self._interface == "lp64":
            return f"this library counts in 32 bits, and {size} does not fit"
        return None

    def prepare(self, cell: Cell, operands: Operands) -> Call:
        refuse(self.unsupported(cell))
        if cell.routine == "dot":
            return self._dot(cell, operands)
        name, options = _routine(cell), cell.options
        assert operands.C is not None
        layout, *transposes = _symbols(cell)
        names = {name: self._function(cell), **self._enums(layout, *transposes)}
        sizes = dict(zip("mnk", cell.shape, strict=False))
        if cell.routine == "gemv" and options.trans[0] != "n":
            sizes = {"m": cell.shape[1], "n": cell.shape[0]}  # gemv counts A as it is stored
        names.update({letter: self._integer(size) for letter, size in sizes.items()})
        names.update(alpha=self._scalar(cell, options.alpha), beta=self._scalar(cell, options.beta))
        names.update(A=_pointer(operands.A), lda=self._integer(_leading(operands.A)))
        if cell.routine == "gemv":
            names.update(x=_pointer(operands.B), y=_pointer(operands.C), one=self._integer(1))
            arguments = "m, n, alpha, A, lda, x, one, beta, y, one"
        else:
            names.update(B=_pointer(operands.B), ldb=self._integer(_leading(operands.B)))
            names.update(C=_pointer(operands.C), ldc=self._integer(_leading(operands.C)))
            arguments = "m, n, k, alpha, A, lda, B, ldb, beta, C, ldc"
        statement = f"{name}({layout}, {', '.join(transposes)}, {arguments})"
        where = f"alpha = {options.alpha!r}, beta = {options.beta!r}"
        return on_host(cell, operands, statement, names, where=where)

    def identify(self) -> dict[str, Any]:
        identity = super().identify()
        library = identity["library"]
        if library and library["interface"] is None:
            library["interface"] = self._interface
            library["unknown"].pop("interface", None)
        return identity

    def _dot(self, cell: Cell, operands: Operands) -> Call:
        name = _routine(cell)
        names = {name: self._function(cell), "n": self._integer(cell.n), "one": self._integer(1)}
        names.update(x=_pointer(operands.A), y=_pointer(operands.B))
        if not cell.is_complex:
            new = f"{name} returns a new scalar"
            return on_host(cell, operands, f"c = {name}(n, x, one, y, one)", names, new)
        scalar = np.zeros((), cell.dtype)
        return Call(
            statement=f"{name}(n, x, one, y, one, c)",
            names={**names, "c": _pointer(scalar)},
            result=lambda names: names["c"].array.copy(),
            poison=lambda: scalar.fill(nan_of(cell.dtype)),
            addresses=placed(A=operands.A, B=operands.B, C=scalar),
        )

    def _function(self, cell: Cell) -> Callable[..., Any] | None:
        name = _routine(cell)
        if ("function", name) not in self._constants:
            try:
                function = self._handle[name.join(self._affixes)]
                scalar = cell.routine == "dot" and not cell.is_complex
                function.restype = REALS.get(LETTERS[cell.dtype]) if scalar else None
            except AttributeError:
                function = None
            self._constants["function", name] = function
        return self._constants["function", name]

    def _integer(self, value: int) -> Any:
        return self._converted(INTERFACES[self._interface], value)

    def _enums(self, layout: str, *transposes: str) -> dict[str, Any]:
        codes = dict([*LAYOUTS.values(), *TRANSPOSES.values()])
        chosen = (layout, *transposes)
        return {name: self._converted(ctypes.c_int, codes[name]) for name in chosen}

    def _scalar(self, cell: Cell, value: float) -> Any:
        """alpha or beta as CBLAS takes it: by value, or for complex numbers by address."""
        letter = LETTERS[cell.dtype]
        if cell.is_complex:
            if (cell.dtype, value) not in self._constants:
                self._constants[cell.dtype, value] = _pointer(np.array(value, cell.dtype))
            return self._constants[cell.dtype, value]
        if letter == "h":  # MKL's MKL_F16 is the number's bits in an unsigned short
            return self._converted(ctypes.c_ushort, int(np.float16(value).view(np.uint16)))
        return self._converted(REALS[letter], value)

    def _converted(self, kind: Any, value: Any) -> Any:
        """A ready-made C argument; the same object for the same value."""
        key = (kind.__name__, value)
        if key not in self._constants:
            self._constants[key] = kind.from_param(value)
        return self._constants[key]


def _routine(cell: Cell) -> str:
    """cblas_sgemm … ; cblas_cdotu_sub for complex vectors."""
    complex_dot = cell.routine == "dot" and cell.is_complex
    return f"cblas_{LETTERS[cell.dtype]}{cell.routine}{'u_sub' if complex_dot else ''}"


def _symbols(cell: Cell) -> list[str]:
    """RowMajor or ColMajor, then NoTrans, Trans or ConjTrans for A, and for B in gemm."""
    letters = cell.options.trans if cell.routine == "gemm" else cell.options.trans[0]
    return [LAYOUTS[cell.options.layout][0], *(TRANSPOSES[letter][0] for letter in letters)]


def _pointer(array: np.ndarray) -> Pointer:
    pointer = Pointer(array.ctypes.data)
    pointer.array = array
    return pointer


def _leading(array: np.ndarray) -> int:
    """The leading dimension in elements: the larger stride."""
    return max(array.strides) // array.itemsize


def _spelling(handle: ctypes.CDLL, path: str, interface: str | None) -> tuple[str, tuple[str, str]]:
    """Width of the integers, and prefix and suffix of the functions' names.

    A suffix says the width; a plain name leaves it to what the library tells, then to lp64.
    """
    wanted = [one for one in CBLAS_SPELLINGS if not interface or one[2] in (None, interface)]
    if interface == "ilp64":  # a name that says so before one that may mean either
        wanted.sort(key=lambda one: one[2] is None)
    for prefix, suffix, width in wanted:
        affixes = prefix, suffix
        if hasattr(handle, "cblas_sgemm".join(affixes)):
            return interface or width or _told(path, affixes) or "lp64", affixes
    raise OSError(f"{path} exports no cblas_sgemm, under none of the names in use")


def _told(path: str, affixes: tuple[str, str]) -> str | None:
    blas = libraries.serving(os.path.realpath(path), ["cblas_sgemm".join(affixes)])
    return blas.interface() if blas else None


def _mkl_interface(handle: ctypes.CDLL, wanted: str | None) -> str:
    """Settle which interface libmkl_rt uses: the option, MKL_INTERFACE_LAYER, or lp64.

    It must be called before the first product, and answers with the layer in force.
    """
    layer = os.environ.get("MKL_INTERFACE_LAYER", "").upper().split(",")
    wanted = wanted or ("ilp64" if "ILP64" in layer else "lp64")
    try:
        settle = handle["MKL_Set_Interface_Layer"]
    except AttributeError:  # not libmkl_rt: what is linked is in force
        return wanted
    return "ilp64" if settle(int(wanted == "ilp64")) & 1 else "lp64"
