"""SciPy: `scipy.linalg.blas`, the BLAS routines themselves, called on NumPy arrays.

The wrappers take Fortran-ordered arrays and copy everything else in silence. Row-major operands
are therefore handed over as their transposed views, which are Fortran-ordered, and the product is
turned round: Cᵀ = op(B)ᵀ op(A)ᵀ. `prepare` checks that nothing will be copied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gemmgrid.measure import libraries
from gemmgrid.measure.adapters.base import (
    LETTERS,
    NAMES,
    NEW_RESULT,
    BlasAdapter,
    Call,
    first_over,
    on_host,
    refuse,
)
from gemmgrid.records.cell import Cell

if TYPE_CHECKING:
    from gemmgrid.measure.invocation.operands import Operands

CODES = {"n": 0, "t": 1, "c": 2}
INT_MAX = 2**31 - 1


class ScipyAdapter(BlasAdapter):
    """?gemm, ?gemv and ?dot (?dotu) of scipy.linalg.blas, on the BLAS that SciPy was built on."""

    library = "scipy"
    devices = ("cpu",)
    packages = ("scipy", "numpy")
    unknown_blas = "SciPy's extension is bound to no BLAS library that is known"

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

    def prepare(self, cell: Cell, operands: Operands) -> Call:
        refuse(self.unsupported(cell))
        _refuse_copies(cell, operands)
        options, (a, b, out) = cell.options, NAMES[cell.routine]
        complex_dot = cell.routine == "dot" and cell.is_complex
        name = f"{LETTERS[cell.dtype]}{cell.routine}{'u' if complex_dot else ''}"
        names = {name: getattr(self._routines, name), a: operands.A, b: operands.B}
        if cell.routine == "dot":
            new = f"{name} returns a new scalar"
            return on_host(cell, operands, f"c = {name}(x, y)", names, new)
        arguments, flags, view = (_gemm if cell.routine == "gemm" else _gemv)(cell)
        if options.beta != 0:
            arguments.append(f"beta={options.beta!r}")
        flags = [flag for flag in flags if not flag.endswith("=0")]
        if options.alloc:
            statement = f"{out} = {name}({', '.join([*arguments, *flags])}){view}"
            return on_host(cell, operands, statement, names, NEW_RESULT)
        low = out.lower()
        arguments += [f"{low}={out}{view}", *flags, f"overwrite_{low}=1"]
        names[out] = operands.C
        return on_host(cell, operands, f"{name}({', '.join(arguments)})", names)


def _gemm(cell: Cell) -> tuple[list[str], list[str], str]:
    """Positional arguments, flags, and the view under which operands and result are handed over."""
    options = cell.options
    flags = {name: CODES[letter] for name, letter in zip("AB", options.trans, strict=True)}
    view, (first, second) = ("", "AB") if options.layout == "F" else (".T", "BA")
    arguments = [repr(options.alpha), f"{first}{view}", f"{second}{view}"]
    return arguments, [f"trans_a={flags[first]}", f"trans_b={flags[second]}"], view


def _gemv(cell: Cell) -> tuple[list[str], list[str], str]:
    options, letter = cell.options, cell.options.trans[0]
    view = "" if options.layout == "F" else ".T"
    flag = CODES[letter] if options.layout == "F" else int(letter == "n")
    return [repr(options.alpha), f"A{view}", "x"], [f"trans={flag}"], ""


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
