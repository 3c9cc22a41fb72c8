"""NumPy: `np.matmul`, `np.dot`, on the BLAS that it was built against."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from gemmgrid.measure import libraries
from gemmgrid.measure.adapters.base import (
    NAMES,
    NEW_RESULT,
    BlasAdapter,
    Call,
    conjugates,
    expression,
    on_host,
    refuse,
)
from gemmgrid.records.cell import Cell

if TYPE_CHECKING:
    from gemmgrid.measure.invocation.operands import Operands


class NumpyAdapter(BlasAdapter):
    """Operands pass through as they are: NumPy hands their strides to BLAS as leading dimensions.

    float16 is computed by a loop of NumPy's own, without BLAS.
    """

    library = "numpy"
    devices = ("cpu",)
    calls = ("matmul", "dot", "operator", "out", "einsum")
    packages = ("numpy",)
    unknown_blas = "NumPy's extension is bound to no BLAS library that is known"

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

    def prepare(self, cell: Cell, operands: Operands) -> Call:
        refuse(self.unsupported(cell))
        a, b, out = NAMES[cell.routine]
        names = {"np": np, a: operands.A, b: operands.B}
        if cell.options.call not in ("auto", "out"):
            a, b = (
                _transposed(*pair, cell) for pair in zip((a, b), cell.options.trans, strict=True)
            )
            product = f"{out} = {expression(cell, 'np', a, b)}"
            return on_host(cell, operands, product, names, NEW_RESULT)
        if cell.routine == "dot":
            new = "np.dot returns a new scalar"
            return on_host(cell, operands, "c = np.dot(x, y)", names, new)
        a, b = (_transposed(*pair, cell) for pair in zip((a, b), cell.options.trans, strict=True))
        if cell.options.alloc:
            del names["np"]
            return on_host(cell, operands, f"{out} = {a} @ {b}", names, NEW_RESULT)
        # np.dot copies a padded matrix before each gemv; np.matmul passes its leading dimension.
        function = "dot" if cell.routine == "gemv" and not cell.options.pad else "matmul"
        names[out] = operands.C
        return on_host(cell, operands, f"np.{function}({a}, {b}, out={out})", names)


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
