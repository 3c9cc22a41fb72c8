"""NumPy: `np.matmul`, `np.dot`, on the BLAS that it was built against."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from gemmgrid.measure import libraries
from gemmgrid.measure.adapters.base import (
    Adapter,
    Call,
    conjugates,
    packages,
    placed,
    refuse,
    resetter,
)
from gemmgrid.records.cell import Cell

if TYPE_CHECKING:
    from gemmgrid.measure.invocation.operands import Operands


class NumpyAdapter(Adapter):
    """Operands pass through as they are: NumPy hands their strides to BLAS as leading dimensions.

    float16 is computed by a loop of NumPy's own, without BLAS.
    """

    library = "numpy"
    devices = ("cpu",)

    def __init__(self, device: str, options: dict[str, Any]) -> None:
        super().__init__(device, options)
        self._blas = libraries.serving(extension_file(), libraries.CBLAS_SYMBOLS)

    def _unsupported(self, cell: Cell) -> str | None:
        options = cell.options
        if cell.dtype == "bfloat16":
            return "NumPy has no bfloat16"
        if options.alpha != 1 or options.beta != 0:
            return "NumPy's matmul has neither alpha nor beta"
        if conjugates(cell):
            return "NumPy has no conjugating view: A.conj().T is a copy, and matmul takes no flag"
        return None

    def set_threads(self, threads: int) -> None:
        if self._blas and self._blas.threads() != threads:
            self._blas.set_threads(threads)

    def library_threads(self) -> int | None:
        return self._blas.threads() if self._blas else None

    def prepare(self, cell: Cell, operands: Operands) -> Call:
        refuse(self.unsupported(cell))
        A, B, C = operands.A, operands.B, operands.C
        if cell.routine == "dot":
            return Call(
                statement="c = np.dot(x, y)",
                names={"np": np, "x": A, "y": B},
                result=lambda names: np.array(names["c"]),
                addresses=placed(A=A, B=B),
                unknown={"C": "np.dot returns a new scalar"},
            )
        a, b = (_transposed(*pair, cell) for pair in zip("AB", cell.options.trans, strict=True))
        names, out = {"np": np, "A": A, "B": B, "C": C}, "C"
        if cell.routine == "gemv":
            names, b, out = {"np": np, "A": A, "x": B, "y": C}, "x", "y"
        if cell.options.alloc:
            del names["np"], names[out]
            return Call(
                statement=f"{out} = {a} @ {b}",
                names=names,
                result=lambda names: names[out].copy(),
                addresses=placed(A=A, B=B),
                unknown={"C": "each call makes a new result"},
            )
        assert C is not None
        # np.dot copies a padded matrix before each gemv; np.matmul passes its leading dimension.
        function = "dot" if cell.routine == "gemv" and not cell.options.pad else "matmul"
        return Call(
            statement=f"np.{function}({a}, {b}, out={out})",
            names=names,
            result=lambda names: names[out].copy(),
            poison=resetter(cell, C, operands.C0),
            addresses=placed(A=A, B=B, C=C),
        )

    def identify(self) -> dict[str, Any]:
        unknown = {}
        if self._blas is None:
            unknown["library"] = "NumPy's extension is bound to no BLAS library that is known"
        return {
            "packages": packages("numpy"),
            "library": libraries.describe(self._blas) if self._blas else None,
            "precision": {},
            "unknown": unknown,
        }


def extension_file() -> str | None:
    """The file of NumPy's extension module that calls BLAS; its place changed with NumPy 2."""
    for name in ("numpy._core._multiarray_umath", "numpy.core._multiarray_umath"):
        module = sys.modules.get(name)
        if module and module.__file__:
            return module.__file__
    return None


def _transposed(name: str, letter: str, cell: Cell) -> str:
    """A view: .T of a matrix, .mT of a stack."""
    view = "mT" if cell.options.batch > 1 else "T"
    return name if letter == "n" else f"{name}.{view}"
