"""Which BLAS library serves this process, and what it says about itself.

Build-time answers mislead (NumPy's show_config names the build's target, torch's process maps
NumPy's OpenBLAS beside its own MKL), so the question goes to the dynamic linker: to which file is
the library that makes the call bound?
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gemmgrid.measure.libraries import linker
from gemmgrid.measure.libraries.blas import Blas
from gemmgrid.measure.libraries.families import recognise
from gemmgrid.measure.libraries.names import CBLAS_SYMBOLS, FORTRAN_SYMBOLS

__all__ = [
    "CBLAS_SYMBOLS",
    "FORTRAN_SYMBOLS",
    "describe",
    "describe_other",
    "mapped",
    "promised",
    "serving",
]


def mapped() -> list[Blas]:
    """Every BLAS library mapped into this process; the parts of one MKL count as one."""
    found = []
    for file in linker.mapped_files():
        handle = linker.opened(file)
        blas = recognise(file, handle) if handle else None
        if blas:
            found.append(blas)
    return _without_parts(found)


def serving(file: str | None, symbols: Iterable[str]) -> Blas | None:
    """The BLAS library to which the mapped library `file` is bound for one of `symbols`.

    `file` is the extension module or shared library that makes the call (NumPy's
    _multiarray_umath, SciPy's _fblas, libtorch_cpu). None where nothing provides the symbol.
    """
    symbol = linker.provider(file, symbols) if file else None
    handle = linker.opened(symbol.file) if symbol else None
    return recognise(symbol.file, handle) if symbol and handle else None


def describe(blas: Blas, others: Iterable[Blas] | None = None) -> dict[str, Any]:
    """The record's "library": what serves, and beside it what else is mapped, by name and file."""
    rest = mapped() if others is None else others
    return {
        **blas.to_json(),
        "others": [
            {"name": other.name, "version": other.version(), "file": other.file}
            for other in rest
            if other.file != blas.file
        ],
    }


def describe_other(name: str, family: str, reason: str, **facts: Any) -> dict[str, Any]:
    """The record's "library" where no BLAS library serves; `reason` for each fact that is null.

    facts   version, file, core, threading, interface, where known; unknown: reasons of their own
    """
    reasons: dict[str, str] = facts.pop("unknown", {})
    record = dict.fromkeys(("version", "file", "core", "threading", "interface")) | facts
    unknown = {key: reasons.get(key, reason) for key, value in record.items() if value is None}
    return {"name": name, "family": family, **record, "others": [], "unknown": unknown}


def promised(family: str | None, library: Mapping[str, Any] | None) -> str | None:
    """What is wrong when a backend promises a BLAS family and another one serves, or None.

    `family` is the registry's `blas`; `library` the "library" of an adapter's identity.
    """
    if family is None:
        return None
    serves = (library or {}).get("family")
    if serves == family:
        return None
    if library is None or serves is None:
        found = "no BLAS library that is known serves it"
    else:
        version = f" {library['version']}" if library.get("version") else ""
        found = f"{library.get('name') or serves}{version} serves it, from {library.get('file')}"
    return (
        f"config/backends.yaml promises blas: {family} for this backend, but {found}; build the "
        "environment again, or name in the registry the BLAS that the environment has"
    )


def _without_parts(found: list[Blas]) -> list[Blas]:
    """Leave out libmkl_core and the like where libmkl_rt stands for all of them."""
    folders = {blas.file.rsplit("/", 1)[0] for blas in found if "/libmkl_rt." in blas.file}
    return [
        blas
        for blas in found
        if blas.family != "mkl"
        or "/libmkl_rt." in blas.file
        or blas.file.rsplit("/", 1)[0] not in folders
    ]
