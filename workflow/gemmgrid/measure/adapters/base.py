"""What every adapter answers, in the same order, so that who knows one file knows them all.

    unsupported    can it compute this cell, or why not
    set_threads    how many threads it shall use, and library_threads: how many it says it uses
    prepare        the operands in the library's own form, and the statement that is timed
    identify       what it is: packages, the library behind it, everything that sets the precision

An adapter imports its library in __init__, after the thread variables are set, and nothing else
but NumPy. It never times, checks or repeats anything.
"""

from __future__ import annotations

import ast
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from gemmgrid.measure import libraries
from gemmgrid.records.cell import Cell

if TYPE_CHECKING:
    from gemmgrid.measure.invocation.operands import Operands
    from gemmgrid.measure.libraries.blas import Blas

ALIGNMENT = 64
NAMES = {"dot": ("x", "y", "c"), "gemv": ("A", "x", "y"), "gemm": ("A", "B", "C")}
"""How the two operands and the result of a routine are called in statements."""
LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}
"""BLAS's letters for the element types that its standard has."""
NEW_RESULT = "each call makes a new result"
SUBSCRIPTS = {"dot": "i,i->", "gemv": "ij,j->i", "gemm": "ij,jk->ik"}
"""The routines in Einstein's notation; a stack has `b` in front."""


class DeviceMissing(OSError):  # noqa: N818  (says what is missing, as FileNotFoundError does)
    """The library is there, and the device is not, or not for this build of the library."""


class DeviceTimer(Protocol):
    """The device's own clock around one batch."""

    def start(self) -> None:
        """Mark the start in the device's queue."""

    def stop(self) -> None:
        """Mark the end in the device's queue, behind the last call and before the fence."""

    def read(self) -> int | None:
        """Wait for the end, and give the nanoseconds between; None where it cannot."""


@dataclass
class Call:
    """A product ready to be timed."""

    statement: str
    """Exactly what is timed, as Python, and what the report shows: `np.matmul(A, B, out=C)`."""
    names: dict[str, Any]
    """Every name in the statement."""
    result: Callable[[dict[str, Any]], np.ndarray]
    """Host copy of the result, from the names after a call; float32 where the cell is bfloat16."""
    fence: str | None = None
    """Python that waits until the device is done, on the names after a call and timed once a batch:
    `torch.cuda.synchronize()`. None where calls return when the work is done."""
    poison: Callable[[], None] | None = None
    """Puts the preallocated result (of every set) into its state before a call: NaN, or C0 where
    beta is not 0 and the call reads it. None where each call makes a new result."""
    device_timer: Callable[[], DeviceTimer] | None = None
    sets: list[dict[str, Any]] | None = None
    """For `.cold`: the names that differ from one set of operands to the next, a dict a set."""
    where: str | None = None
    """What a name in the statement stands for, where the statement alone does not tell."""
    addresses: dict[str, int] = field(default_factory=dict)
    """Where the library reads A and B and writes C: addresses in its own memory."""
    unknown: dict[str, str] = field(default_factory=dict)
    """Reasons for the addresses that are missing, by operand."""

    @property
    def assigned(self) -> set[str]:
        """Names that the statement gives a new value: results made by the call itself."""
        return {
            node.id
            for node in ast.walk(ast.parse(self.statement))
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }


class Adapter(ABC):
    """One library on one device.

    The constructor raises what the library's import raises (ImportError, OSError), DeviceMissing
    (an OSError) without the device, FileNotFoundError without a BLAS file, and ValueError for
    options that it does not take.
    """

    library: ClassVar[str]
    devices: ClassVar[tuple[str, ...]]
    known_options: ClassVar[dict[str, str]] = {}
    """Options that the registry may set for this adapter, and what each takes."""
    calls: ClassVar[tuple[str, ...]] = ("direct",)
    """Ways to write a product that the library has."""
    modes: ClassVar[tuple[str, ...]] = ("eager",)

    def __init__(self, device: str, options: dict[str, Any]) -> None:
        if device not in self.devices:
            allowed = ", ".join(self.devices)
            raise ValueError(f"adapter {self.library}: device {device!r} is none of {allowed}")
        for option in options:
            if option not in self.known_options:
                allowed = ", ".join(self.known_options) or "none at all"
                raise ValueError(
                    f"adapter {self.library}: it takes no option {option!r}, only {allowed}; "
                    "see `options:` of this backend in config/backends.yaml"
                )
        self.device = device
        self.options = options

    def unsupported(self, cell: Cell) -> str | None:
        """Why this cell cannot be computed here, or None; a None is a promise."""
        if cell.routine == "dot" and (cell.options.pad or cell.options.layout != "C"):
            return "dot takes vectors, which have neither layout nor leading dimension"
        for kind, known in (("call", self.calls), ("mode", self.modes)):
            asked = getattr(cell.options, kind)
            if asked not in ("auto", *known):
                return f"{self.library} has no {kind} {asked}, only {', '.join(known)}"
        return self._unsupported(cell)

    @abstractmethod
    def _unsupported(self, cell: Cell) -> str | None:
        """What this library cannot do."""

    @abstractmethod
    def set_threads(self, threads: int) -> None:
        """Ask the library for that many threads; call it before `prepare`."""

    @abstractmethod
    def library_threads(self) -> int | None:
        """How many threads the library says it uses; None where it does not tell."""

    @abstractmethod
    def prepare(self, cell: Cell, operands: Operands) -> Call:
        """The operands as the library takes them, and the call. ValueError if unsupported."""

    def prepare_sets(self, cell: Cell, operands: Sequence[Operands]) -> Call:
        """One call that goes round several sets of operands, so that none is in the cache."""
        calls = [self.prepare(cell, one) for one in operands]
        first = calls[0]
        varying = [
            name
            for name, value in first.names.items()
            if any(call.names[name] is not value for call in calls)
        ]
        poisons = [call.poison for call in calls if call.poison]

        def poison_all() -> None:
            for poison in poisons:
                poison()

        return replace(
            first,
            sets=[{name: call.names[name] for name in varying} for call in calls],
            poison=poison_all if poisons else None,
        )

    @abstractmethod
    def identify(self) -> dict[str, Any]:
        """{"packages": {name: version}, "library": {…} or None, "precision": {knob: value},
        "unknown": {path: reason}}; call it after a product, when everything is loaded."""


class BlasAdapter(Adapter):
    """An adapter on NumPy arrays whose products go to a BLAS library in this process."""

    packages: ClassVar[tuple[str, ...]]
    """Names of the packages that the record gives versions of."""
    unknown_blas: ClassVar[str]
    """Why no library is named where it is of no family that is known."""
    _blas: Blas | None

    def set_threads(self, threads: int) -> None:
        if self._blas and self._blas.threads() != threads:
            self._blas.set_threads(threads)

    def library_threads(self) -> int | None:
        return self._blas.threads() if self._blas else None

    def identify(self) -> dict[str, Any]:
        return {
            "packages": packages(*self.packages),
            "library": libraries.describe(self._blas) if self._blas else None,
            "precision": {},
            "unknown": {} if self._blas else {"library": self.unknown_blas},
        }


def expression(cell: Cell, library: str, a: str, b: str) -> str:
    """The product as its user writes it where it makes a new result; library: as it is imported."""
    call = cell.options.call
    if call == "operator":
        return f"{a} @ {b}"
    if call == "einsum":
        return f'{library}.einsum("{subscripts(cell)}", {a}, {b})'
    return f"{library}.{'dot' if call == 'dot' else 'matmul'}({a}, {b})"


def subscripts(cell: Cell) -> str:
    """Einstein's notation of the cell's product."""
    plain = SUBSCRIPTS[cell.routine]
    return "bij,bjk->bik" if cell.options.batch > 1 else plain


def on_host(
    cell: Cell,
    operands: Operands,
    statement: str,
    names: dict[str, Any],
    new: str | None = None,
    where: str | None = None,
) -> Call:
    """A call on the operands as they are, NumPy arrays.

    new   why the result has no address, where each call makes a new one instead of writing to C
    """
    out, C = NAMES[cell.routine][2], None if new else operands.C
    return Call(
        statement,
        names,
        result=lambda names: _copied(names[out], cell.dtype),
        poison=None if C is None else resetter(cell, C, operands.C0),
        where=where,
        addresses=placed(A=operands.A, B=operands.B, C=C),
        unknown={"C": new} if new else {},
    )


def _copied(value: Any, dtype: str) -> np.ndarray:
    """A copy of an array, of the one behind a pointer, or of a scalar; Python's have no dtype."""
    value = getattr(value, "array", value)
    typed = isinstance(value, np.ndarray | np.generic)
    return np.array(value, None if typed else dtype, order="C")


def refuse(reason: str | None) -> None:
    """ValueError with the reason, if there is one: `prepare` was called for an unsupported cell."""
    if reason:
        raise ValueError(f"this cell is unsupported: {reason}")


def packages(*names: str) -> dict[str, str]:
    """Versions of those of the packages that are installed.

    Read off the names of their .dist-info folders: importlib.metadata takes longer to import than
    all the rest of an invocation's own code.
    """
    versions = {}
    for name in names:
        pattern = f"{name.replace('-', '_')}-*.dist-info"
        for folder in filter(None, sys.path):
            found = next(Path(folder).glob(pattern), None)
            if found:
                versions[name] = found.name.removesuffix(".dist-info").rpartition("-")[2]
                break
    return versions


def variables(*names: str) -> dict[str, str | None]:
    """Values of environment variables that change what is computed; None where not set."""
    return {name: os.environ.get(name) for name in names}


def placed(**arrays: np.ndarray | None) -> dict[str, int]:
    """Addresses of NumPy arrays, by name."""
    return {name: array.ctypes.data for name, array in arrays.items() if array is not None}


def nan_of(dtype: str) -> complex:
    """NaN in every part of a number of that dtype."""
    return complex(np.nan, np.nan) if dtype.startswith("complex") else np.nan


def resetter(cell: Cell, C: np.ndarray, C0: np.ndarray | None) -> Callable[[], None]:
    """`poison` for a result that is a NumPy array."""
    if cell.options.beta != 0 and C0 is not None:
        return lambda: np.copyto(C, C0)
    return lambda: C.fill(nan_of(cell.dtype))


def sibling(array: np.ndarray, dtype: Any) -> np.ndarray:
    """An array of another dtype with the same shape, strides in elements, and place in its line.

    For libraries with a 16-bit type of their own: the operand lies as the original does.
    """
    item = np.dtype(dtype).itemsize
    strides = [stride // array.itemsize * item for stride in array.strides]
    pairs = zip(array.shape, strides, strict=True)
    span = item + sum((size - 1) * stride for size, stride in pairs)
    buffer = np.zeros(span + 2 * ALIGNMENT, np.uint8)
    start = (array.ctypes.data - buffer.ctypes.data) % ALIGNMENT
    return np.ndarray(array.shape, dtype, buffer, start, strides)


def conjugates(cell: Cell) -> bool:
    """Whether the cell asks for a conjugate that differs from the plain transpose."""
    return cell.is_complex and "c" in cell.options.trans


def first_over(limit: int, sizes: Iterable[int]) -> int | None:
    """The first of the sizes that a library with such a limit cannot take."""
    return next((size for size in sizes if size > limit), None)
