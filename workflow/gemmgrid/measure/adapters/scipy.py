"""SciPy: `scipy.linalg.blas`, the BLAS routines themselves, called on NumPy arrays.

The wrappers take Fortran-ordered arrays and copy everything else in silence. Row-major operands
are therefore handed over as their transposed views, which are Fortran-ordered, and the product is
turned round: Cᵀ = op(B)ᵀ op(A)ᵀ. `prepare` checks that nothing will be copied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gemmgrid.measure import libraries
from gemmgrid.measure.adapters.base import (
    Adapter,
    Call,
    first_over,
    packages,
    placed,
    refuse,
    resetter,
)
from gemmgrid.records.cell import Cell

if TYPE_CHECKING:
    from gemmgrid.measure.invocation.operands import Operands

LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}
CODES = {"n": 0, "t": 1, "c": 2}
INT_MAX = 2**31 - 1


class ScipyAdapter(Adapter):
    """?gemm, ?gemv and ?dot (?dotu) of scipy.linalg.blas, on the BLAS that SciPy was built on."""

    library = "scipy"
    devices = ("cpu",)

    def __init__(self, device: str, options: dict[str, Any]) -> None:
        super().__init__(device, options)
        from scipy.linalg import _fblas, blas

        self._routines = blas
        self._blas = libraries.serving(_fblas.__file__, libraries.FORTRAN_SYMBOLS)

    def _unsupported(self, cell: Cell) -> str | None:
        options = cell.options
        if cell.dtype not in LETTERS:
            return f"scipy.linalg.blas has no {cell.dtype} routines"
        if options.batch > 1:
            return "scipy.linalg.blas multiplies one pair of matrices in a call"
        if options.pad:
            return "SciPy's wrappers take no leading dimension: they copy padded matrices"
        if cell.routine == "gemv" and _conjugates_only(cell):
            return "?gemv cannot conjugate a row-major matrix (Fortran's view of it is transposed)"
        size = first_over(INT_MAX, cell.shape)
        return f"SciPy's BLAS counts in 32 bits, and {size} does not fit" if size else None

    def set_threads(self, threads: int) -> None:
        if self._blas and self._blas.threads() != threads:
            self._blas.set_threads(threads)

    def library_threads(self) -> int | None:
        return self._blas.threads() if self._blas else None

    def prepare(self, cell: Cell, operands: Operands) -> Call:
        refuse(self.unsupported(cell))
        if cell.routine == "dot":
            return self._dot(cell, operands)
        if cell.routine == "gemv":
            return self._gemv(cell, operands)
        return self._gemm(cell, operands)

    def identify(self) -> dict[str, Any]:
        unknown = {}
        if self._blas is None:
            unknown["library"] = "SciPy's extension is bound to no BLAS library that is known"
        return {
            "packages": packages("scipy", "numpy"),
            "library": libraries.describe(self._blas) if self._blas else None,
            "precision": {},
            "unknown": unknown,
        }

    def _gemm(self, cell: Cell, operands: Operands) -> Call:
        options, name = cell.options, f"{LETTERS[cell.dtype]}gemm"
        flags = dict(zip("AB", (CODES[letter] for letter in options.trans), strict=True))
        view, order = ("", "AB") if options.layout == "F" else (".T", "BA")
        first, second = order[0], order[1]
        arguments = [repr(options.alpha), f"{first}{view}", f"{second}{view}"]
        if options.beta != 0:
            arguments.append(f"beta={options.beta!r}")
        flagged = [f"trans_a={flags[first]}", f"trans_b={flags[second]}"]
        flagged = [flag for flag in flagged if not flag.endswith("=0")]
        names = {name: getattr(self._routines, name), "A": operands.A, "B": operands.B}
        _refuse_copies(cell, operands)
        if options.alloc:
            return Call(
                statement=f"C = {name}({', '.join([*arguments, *flagged])}){view}",
                names=names,
                result=lambda names: names["C"].copy(),
                addresses=placed(A=operands.A, B=operands.B),
                unknown={"C": "each call makes a new result"},
            )
        assert operands.C is not None
        arguments += [f"c=C{view}", *flagged, "overwrite_c=1"]
        return Call(
            statement=f"{name}({', '.join(arguments)})",
            names={**names, "C": operands.C},
            result=lambda names: names["C"].copy(),
            poison=resetter(cell, operands.C, operands.C0),
            addresses=placed(A=operands.A, B=operands.B, C=operands.C),
        )

    def _gemv(self, cell: Cell, operands: Operands) -> Call:
        options, name = cell.options, f"{LETTERS[cell.dtype]}gemv"
        letter = options.trans[0]
        view = "" if options.layout == "F" else ".T"
        flag = CODES[letter] if options.layout == "F" else int(letter == "n")
        arguments = [repr(options.alpha), f"A{view}", "x"]
        if options.beta != 0:
            arguments.append(f"beta={options.beta!r}")
        flagged = [f"trans={flag}"] if flag else []
        names = {name: getattr(self._routines, name), "A": operands.A, "x": operands.B}
        _refuse_copies(cell, operands)
        if options.alloc:
            return Call(
                statement=f"y = {name}({', '.join([*arguments, *flagged])})",
                names=names,
                result=lambda names: names["y"].copy(),
                addresses=placed(A=operands.A, B=operands.B),
                unknown={"C": "each call makes a new result"},
            )
        assert operands.C is not None
        arguments += ["y=y", *flagged, "overwrite_y=1"]
        return Call(
            statement=f"{name}({', '.join(arguments)})",
            names={**names, "y": operands.C},
            result=lambda names: names["y"].copy(),
            poison=resetter(cell, operands.C, operands.C0),
            addresses=placed(A=operands.A, B=operands.B, C=operands.C),
        )

    def _dot(self, cell: Cell, operands: Operands) -> Call:
        name = f"{LETTERS[cell.dtype]}dot{'u' if cell.is_complex else ''}"
        _refuse_copies(cell, operands)
        return Call(
            statement=f"c = {name}(x, y)",
            names={name: getattr(self._routines, name), "x": operands.A, "y": operands.B},
            result=lambda names: np.array(names["c"], cell.dtype),
            addresses=placed(A=operands.A, B=operands.B),
            unknown={"C": f"{name} returns a new scalar"},
        )


def _conjugates_only(cell: Cell) -> bool:
    return cell.is_complex and cell.options.trans[0] == "c" and cell.options.layout == "C"


def _refuse_copies(cell: Cell, operands: Operands) -> None:
    """ValueError unless every array is what the wrappers take as it is."""
    for name, array in (("A", operands.A), ("B", operands.B), ("C", operands.C)):
        if array is None:
            continue
        given = array if cell.options.layout == "F" or array.ndim < 2 else array.T
        if not (given.flags.f_contiguous and given.flags.aligned and array.dtype == cell.dtype):
            raise ValueError(
                f"SciPy would copy {name} in every call: dtype {array.dtype}, strides "
                f"{array.strides}; it takes {cell.dtype} without gaps, in the cell's layout"
            )
