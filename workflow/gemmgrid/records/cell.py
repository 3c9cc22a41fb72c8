"""What a cell is: one point of the grid, with a name that is readable, complete and reversible.

A name reads `gemm.float32.1024x512x768.t8.nt.b64`: routine, dtype, shape, host threads, then each
option that differs from its default, in the order of `Options`. The machine, the backend and all
versions stay outside, so the same cell has the same name on every machine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cached_property
from math import prod
from typing import Any

PROTOCOL = 1
"""Raised on purpose when measuring changes so much that old and new runs must not be mixed."""

ITEM_BYTES = {
    "float16": 2,
    "bfloat16": 2,
    "float32": 4,
    "float64": 8,
    "complex64": 8,
    "complex128": 16,
}
DTYPES = tuple(ITEM_BYTES)
DIMENSIONS = {"dot": 1, "gemv": 2, "gemm": 3}
ROUTINES = tuple(DIMENSIONS)
INPUTS = ("normal", "zeros", "integers")
LAYOUTS = ("C", "F")
CALLS = ("auto", "matmul", "dot", "operator", "out", "einsum", "direct")
MODES = ("auto", "eager", "compiled", "lazy")

_NAME = re.compile(
    r"(?P<routine>[a-z]+)\.(?P<dtype>[a-z0-9]+)\.(?P<shape>[0-9]+(?:x[0-9]+)*)\.t(?P<threads>[0-9]+)"
    r"(?P<options>(?:\..+)?)"
)
_NUMBER = r"-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?"
_OPTIONS = re.compile(
    r"(?:\.(?P<trans>[ntc]{2}))?"
    r"(?:\.b(?P<batch>[0-9]+))?"
    r"(?P<layout>\.colmajor)?"
    r"(?:\.ld(?P<pad>[0-9]+))?"
    rf"(?:\.alpha(?P<alpha>{_NUMBER}))?"
    rf"(?:\.beta(?P<beta>{_NUMBER}))?"
    r"(?:\.(?P<inputs>zeros|integers))?"
    r"(?P<reuse>\.reuse)?"
    r"(?P<unaligned>\.unaligned)?"
    r"(?P<alloc>\.alloc)?"
    r"(?P<cold>\.cold)?"
    rf"(?:\.(?P<call>{'|'.join(CALLS[1:])}))?"
    rf"(?:\.(?P<mode>{'|'.join(MODES[1:])}))?"
)


@dataclass(frozen=True)
class Options:
    """What a cell may ask for beyond the plain product; the defaults are left out of its name.

    trans      letters for A and B: n as stored, t transposed, c conjugate-transposed; the stored
               operand has the transposed shape (gemv: only the first letter may differ from n)
    batch      number of independent products in one stack (gemm)
    layout     C or F: row- or column-major operands and result
    pad        elements added to each leading dimension
    alpha,beta C := alpha op(A) op(B) + beta C
    inputs     normal (seeded standard normal), zeros, integers (-4 … 4)
    reuse      B is the same array as A
    unaligned  operands placed 16 bytes past a 64-byte boundary
    alloc      the result is allocated inside the timing
    cold       operands rotate past the last-level cache
    call       how the product is written: matmul, dot, einsum and operator (@) make a new result;
               out is the function with out=; direct the BLAS routine itself; auto what the library
               does soonest, into a result that is there or, with alloc, into a new one
    mode       eager, compiled (torch.compile, jax.jit, mx.compile) or lazy; auto: the library's own
    """

    trans: str = "nn"
    batch: int = 1
    layout: str = "C"
    pad: int = 0
    alpha: float = 1.0
    beta: float = 0.0
    inputs: str = "normal"
    reuse: bool = False
    unaligned: bool = False
    alloc: bool = False
    cold: bool = False
    call: str = "auto"
    mode: str = "auto"

    @property
    def suffix(self) -> str:
        """The part of a cell's name that these options make, empty for the defaults."""
        parts = []
        if self.trans != "nn":
            parts.append(self.trans)
        if self.batch != 1:
            parts.append(f"b{self.batch}")
        if self.layout != "C":
            parts.append("colmajor")
        if self.pad:
            parts.append(f"ld{self.pad}")
        if self.alpha != 1:
            parts.append(f"alpha{_number(self.alpha)}")
        if self.beta != 0:
            parts.append(f"beta{_number(self.beta)}")
        if self.inputs != "normal":
            parts.append(self.inputs)
        parts += [word for word in ("reuse", "unaligned", "alloc", "cold") if getattr(self, word)]
        parts += [word for word in (self.call, self.mode) if word != "auto"]
        return "".join(f".{part}" for part in parts)

    def to_json(self) -> dict[str, Any]:
        """Only what differs from the defaults."""
        return {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if getattr(self, field.name) != field.default
        }


def product_of(name: str) -> str:
    """The product of a cell's name."""
    return ".".join(name.split(".", 3)[:3])


OPTION_NAMES = tuple(field.name for field in fields(Options))
_DEFAULTS = {field.name: field.default for field in fields(Options) if field.default is not MISSING}


@dataclass(frozen=True)
class Cell:
    """One product to measure. Shapes: gemm (m, n, k), C m×n; gemv (m, n), y = A x; dot (n,)."""

    routine: str
    dtype: str
    shape: tuple[int, ...]
    threads: int
    options: Options = Options()
    protocol: int = PROTOCOL

    def __post_init__(self) -> None:
        problem = cell_problem(self)
        if problem:
            raise ValueError(problem)

    @cached_property
    def name(self) -> str:
        shape = "x".join(map(str, self.shape))
        return f"{self.routine}.{self.dtype}.{shape}.t{self.threads}{self.options.suffix}"

    @property
    def product(self) -> str:
        """What is computed, whatever the threads and options: `gemm.float32.512x512x512`."""
        return product_of(self.name)

    @property
    def m(self) -> int | None:
        return None if self.routine == "dot" else self.shape[0]

    @property
    def n(self) -> int:
        return self.shape[0] if self.routine == "dot" else self.shape[1]

    @property
    def k(self) -> int | None:
        return self.shape[2] if self.routine == "gemm" else None

    @property
    def is_complex(self) -> bool:
        return self.dtype.startswith("complex")

    @property
    def depth(self) -> int:
        """Length of the sums behind each element of the result."""
        return self.shape[-1]

    @property
    def flops(self) -> int:
        """Floating-point operations of one call: gemm 2mnk, gemv 2mn, dot 2n; complex four times.

        A complex multiply-add is four real multiplications and four additions, hence 8mnk.
        """
        return 2 * prod(self.shape) * self.options.batch * (4 if self.is_complex else 1)

    @property
    def operand_shapes(self) -> dict[str, tuple[int, ...]]:
        """Stored shapes of A, B and C without the batch axis: transposed where `trans` says so."""
        if self.routine == "dot":
            return {"A": self.shape, "B": self.shape, "C": ()}
        ta, tb = tuple(self.options.trans)
        if self.routine == "gemv":
            m, n = self.shape
            return {"A": (m, n) if ta == "n" else (n, m), "B": (n,), "C": (m,)}
        m, n, k = self.shape
        return {
            "A": (m, k) if ta == "n" else (k, m),
            "B": (k, n) if tb == "n" else (n, k),
            "C": (m, n),
        }

    @property
    def operand_bytes(self) -> int:
        """Bytes of the operands and the result of one call, batch and padding included."""
        shapes = self.operand_shapes
        if self.options.reuse:
            del shapes["B"]
        return sum(map(self._stored_bytes, shapes.values()))

    def _stored_bytes(self, shape: tuple[int, ...]) -> int:
        if len(shape) == 2:
            rows, lead = shape if self.options.layout == "C" else reversed(shape)
            count = rows * (lead + self.options.pad)
        else:
            count = prod(shape)
        return count * self.options.batch * ITEM_BYTES[self.dtype]

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "routine": self.routine,
            "dtype": self.dtype,
            "shape": list(self.shape),
            "threads": self.threads,
            "options": self.options.to_json(),
            "protocol": self.protocol,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Cell:
        """The cell that `to_json` described; ValueError says what is wrong with it."""
        try:
            cell = cls(
                routine=document["routine"],
                dtype=document["dtype"],
                shape=tuple(document["shape"]),
                threads=document["threads"],
                options=Options(**document.get("options", {})),
                protocol=document.get("protocol", PROTOCOL),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a cell: {error}") from error
        if document.get("name", cell.name) != cell.name:
            raise ValueError(f"the name {document['name']!r} is not this cell's, {cell.name!r}")
        return cell

    @classmethod
    def parse(cls, name: str) -> Cell:
        """The cell of a name; ValueError where the name is not one."""
        match = _NAME.fullmatch(name)
        options = match and _OPTIONS.fullmatch(match["options"])
        if not match or not options:
            raise ValueError(f"{name!r} is not a cell's name (gemm.float32.512x512x512.t2)")
        values: dict[str, Any] = {}
        for key, text in options.groupdict().items():
            if text is not None:
                values[key] = _option_value(key, text)
        cell = cls(
            match["routine"],
            match["dtype"],
            tuple(map(int, match["shape"].split("x"))),
            int(match["threads"]),
            Options(**values),
        )
        if cell.name != name:
            raise ValueError(f"{name!r} is not a cell's name; the cell it describes is {cell.name}")
        return cell


def cell_problem(cell: Cell) -> str | None:
    """Why this cell cannot exist on any machine, or None."""
    options = cell.options
    if cell.routine not in DIMENSIONS:
        return f"routine {cell.routine!r} is none of {', '.join(ROUTINES)}"
    if cell.dtype not in ITEM_BYTES:
        return f"dtype {cell.dtype!r} is none of {', '.join(DTYPES)}"
    if len(cell.shape) != DIMENSIONS[cell.routine]:
        return f"{cell.routine} takes {DIMENSIONS[cell.routine]} dimensions, not {len(cell.shape)}"
    if any(type(size) is not int or size < 1 for size in cell.shape):
        return f"every dimension must be a whole number of at least 1, not {cell.shape}"
    if type(cell.threads) is not int or cell.threads < 1:
        return f"threads must be a whole number of at least 1, not {cell.threads!r}"
    if not re.fullmatch("[ntc]{2}", options.trans):
        return f"trans {options.trans!r} must be two letters of n, t, c"
    if cell.routine == "dot" and options.trans != "nn":
        return "dot has nothing to transpose"
    if cell.routine == "gemv" and options.trans[1] != "n":
        return "gemv transposes only A: trans nn, tn or cn"
    if type(options.batch) is not int or options.batch < 1:
        return f"batch must be a whole number of at least 1, not {options.batch!r}"
    if options.batch > 1 and cell.routine != "gemm":
        return f"batch needs gemm, not {cell.routine}"
    if options.layout not in LAYOUTS:
        return f"layout {options.layout!r} is none of {', '.join(LAYOUTS)}"
    if type(options.pad) is not int or options.pad < 0:
        return f"pad must be a whole number of at least 0, not {options.pad!r}"
    if options.inputs not in INPUTS:
        return f"inputs {options.inputs!r} is none of {', '.join(INPUTS)}"
    if options.reuse:
        shapes = cell.operand_shapes
        if shapes["A"] != shapes["B"]:
            return "reuse needs A and B of the same stored shape"
    if cell.routine == "dot" and (options.alpha != 1 or options.beta != 0 or options.alloc):
        return "dot has no alpha, beta or result to allocate"
    if options.alloc and options.beta != 0:
        return "alloc makes a new result, so beta must be 0"
    return _way_problem(cell)


def _way_problem(cell: Cell) -> str | None:
    """What is wrong with how the product is written, or None."""
    options = cell.options
    if options.call not in CALLS:
        return f"call {options.call!r} is none of {', '.join(CALLS)}"
    if options.mode not in MODES:
        return f"mode {options.mode!r} is none of {', '.join(MODES)}"
    if options.call == "auto":
        return None
    if options.alloc:
        return f"call {options.call} says itself whether the result is allocated, so alloc must go"
    if options.call == "out":
        return "dot returns a scalar, which takes no out=" if cell.routine == "dot" else None
    if options.call == "direct":
        return None
    if options.alpha != 1 or options.beta != 0:
        return f"call {options.call} has neither alpha nor beta"
    if options.call == "dot" and options.batch > 1:
        return "dot of two stacks multiplies each with each: call dot needs batch 1"
    return None


def _number(value: float) -> str:
    """Shortest text that reads back as the same number, without a trailing .0."""
    return repr(int(value)) if value == int(value) else repr(float(value))


def _option_value(key: str, text: str) -> Any:
    default = _DEFAULTS[key]
    if key == "layout":
        return "F"
    if isinstance(default, bool):
        return True
    return type(default)(text)
