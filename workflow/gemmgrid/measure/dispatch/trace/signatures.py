"""BLAS routines by their symbols: which names we watch, and what their arguments mean.

`scipy_cblas_sgemm64_` is the C interface of sgemm with 64-bit integers in the copy of OpenBLAS that
NumPy brings; `sgemm_` the Fortran interface; `cublasSgemm_v2` NVIDIA's.
Signatures: Netlib's reference BLAS (blas/*.f, cblas.h) and cublas_v2.h.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from gemmgrid.measure.dispatch.trace.stub_layout import Capture, place_arguments
from gemmgrid.measure.libraries.names import TRACED_PREFIX, TRACED_SUFFIX

Interface = Literal["cblas", "fortran", "cublas"]

_LEVELS = (
    "gemm3m|gemmtr|gemmt|gemm_batch_strided|gemm_batch|gemm_compute|gemm_pack|gemm|gemv|gbmv|"
    "geru|gerc|ger|syrk|herk|syr2k|her2k|symm|hemm|symv|hemv|syr|her|trmm|trsm|trmv|trsv|"
    "axpby|axpy|dotu_sub|dotc_sub|dotu|dotc|dot"
)
_BLAS = re.compile(
    rf"{TRACED_PREFIX}(?P<cblas>cblas_)?"
    rf"(?P<type>sb|sh|bg|bf|ds|sds|[sdczh])(?P<routine>{_LEVELS})(?P<suffix>{TRACED_SUFFIX})"
)
_MIXED = re.compile(
    r"(?P<cblas>cblas_)?(?P<name>gemm_(?:bf16bf16f32|f16f16f32|s8u8s32|s16s16s32|e5m2e5m2f32|"
    r"e4m3e4m3f32)(?:_compute)?)_?(?:64)?_?"
)
_CUBLAS = re.compile(
    r"cublas(?P<lt>Lt)?(?P<type>[SDCZH]?)"
    r"(?P<routine>gemm3m|gemm|gemv|dotu|dotc|dot|ger|syrk|herk|Gemm|Dot|Matmul)(?P<kind>Ex|)"
    r"(?P<batch>Batched|StridedBatched|GroupedBatched|)(?P<late>Ex|)(?P<suffix>(?:_v2)?(?:_64)?)"
)

# Arguments in order. order, transa, transb, uplo, side: flags; m, n, k, ld*, inc*: integers; alpha,
# beta: scalars; capitals and x, y, out, handle: addresses. `order` is in the C interface only.
_SIGNATURES = {
    "gemm": "order transa transb m n k alpha A lda B ldb beta C ldc",
    "gemmt": "order uplo transa transb n k alpha A lda B ldb beta C ldc",
    "gemv": "order transa m n alpha A lda x incx beta y incy",
    "ger": "order m n alpha x incx y incy A lda",
    "syrk": "order uplo transa n k alpha A lda beta C ldc",
    "syr2k": "order uplo transa n k alpha A lda B ldb beta C ldc",
    "symm": "order side uplo m n alpha A lda B ldb beta C ldc",
    "symv": "order uplo n alpha A lda x incx beta y incy",
    "axpy": "n alpha x incx y incy",
    "dot": "n x incx y incy",
    "dot_sub": "n x incx y incy out",
}
_SAME_AS = {
    "gemm3m": "gemm", "gemmtr": "gemmt", "herk": "syrk", "hemm": "symm", "hemv": "symv",
    "geru": "ger", "gerc": "ger", "dotu_sub": "dot_sub", "dotc_sub": "dot_sub",
}  # fmt: skip
# cuBLAS: alpha and beta may lie in device memory, so they are never read.
_CUBLAS_SIGNATURES = {
    "gemm": "handle transa transb m n k device_alpha A lda B ldb device_beta C ldc",
    "gemv": "handle transa m n device_alpha A lda x incx device_beta y incy",
    "dot": "handle n x incx y incy",
}
FLAGS = ("order", "transa", "transb", "uplo", "side")
SCALARS = ("alpha", "beta")
ADDRESSES = ("A", "B", "C", "x", "y", "out", "handle", "device_alpha", "device_beta")
_FLAG_WORDS = {
    "order": {101: "row", 102: "col"},
    "trans": {111: "n", 112: "t", 113: "c"},
    "uplo": {121: "u", 122: "l"},
    "side": {141: "l", 142: "r"},
}
_CUBLAS_TRANS = {0: "n", 1: "t", 2: "c"}
REAL_BYTES = {"s": 4, "d": 8}
COMPLEX_BYTES = {"c": 8, "z": 16}
ITEM_BYTES = {"h": 2, "sb": 2, "sh": 2, "bf": 2, "bg": 2, **REAL_BYTES, **COMPLEX_BYTES}


@dataclass(frozen=True)
class Routine:
    """A BLAS routine that a symbol names."""

    symbol: str
    interface: Interface
    type: str
    """Letter of the element type: s d c z h sb …, "" where the name has none."""
    operation: str
    """gemm, gemv, dotu_sub …"""
    integer_bytes: int

    @property
    def name(self) -> str:
        """sgemm, cdotu, cublasSgemm …"""
        if self.interface == "cublas":
            return self.operation
        return self.type + self.operation.removesuffix("_sub")

    @property
    def item_bytes(self) -> int | None:
        return ITEM_BYTES.get(self.type)

    @property
    def arguments(self) -> list[str] | None:
        """Names of the arguments in order, or None where calls are only counted."""
        if self.interface == "cublas":
            plain = self.symbol.removeprefix("cublas")[1:].split("_")[0]
            text = _CUBLAS_SIGNATURES.get(plain)
            return text.split() if text and self.type else None
        if self.type not in REAL_BYTES and self.type not in COMPLEX_BYTES:
            return None
        if self.operation in ("dotu", "dotc"):  # returns its result where each compiler wants it
            return None
        text = _SIGNATURES.get(_SAME_AS.get(self.operation, self.operation))
        if text is None:
            return None
        return [a for a in text.split() if a != "order" or self.interface == "cblas"]

    def captures(self, integer_registers: int, float_registers: int) -> list[Capture]:
        """Where each argument is found, and how much is read behind those that are addresses."""
        names = self.arguments or []
        kinds: list[Literal["integer", "float"]] = [
            "float" if self._by_value(name) and name in SCALARS else "integer" for name in names
        ]
        places = place_arguments(kinds, integer_registers, float_registers)
        return [
            replace(place, pointed_bytes=0 if self._by_value(name) else self._pointed_bytes(name))
            for name, place in zip(names, places, strict=True)
        ]

    def _by_value(self, name: str) -> bool:
        if name in ADDRESSES:
            return True
        if name in SCALARS:
            return self.interface == "cblas" and self._real_scalar
        return self.interface != "fortran"

    @property
    def _real_scalar(self) -> bool:
        """herk scales complex matrices by real numbers."""
        return self.type in REAL_BYTES or self.operation == "herk"

    def _pointed_bytes(self, name: str) -> int:
        if name in FLAGS:
            return 1
        if name in SCALARS:
            if self.operation == "herk":
                return COMPLEX_BYTES[self.type] // 2
            return {**REAL_BYTES, **COMPLEX_BYTES}[self.type]
        return self.integer_bytes

    def decode(self, notes: list[bytes]) -> tuple[dict[str, Any], dict[str, int]]:
        """(arguments in words and numbers, addresses of the operands) from 16 bytes for each."""
        arguments: dict[str, Any] = {}
        addresses: dict[str, int] = {}
        for name, raw in zip(self.arguments or [], notes, strict=True):
            if name in ADDRESSES:
                if name not in ("handle", "out"):
                    addresses[name] = int.from_bytes(raw[:8], "little")
            elif name in FLAGS:
                arguments[name] = self._flag(name, raw)
            elif name in SCALARS:
                arguments[name] = self._scalar(raw)
            else:
                size = self.integer_bytes
                arguments[name] = int.from_bytes(raw[:size], "little", signed=True)
        return arguments, addresses

    def _flag(self, name: str, raw: bytes) -> Any:
        if self.interface == "fortran":
            return chr(raw[0]).lower()
        value = int.from_bytes(raw[:4], "little", signed=True)
        if self.interface == "cublas":
            return _CUBLAS_TRANS.get(value, value)
        return _FLAG_WORDS["trans" if name.startswith("trans") else name].get(value, value)

    def _scalar(self, raw: bytes) -> Any:
        double = self.type in ("d", "z")
        real = struct.unpack_from("<d" if double else "<f", raw)[0]
        if self._real_scalar:
            return real
        imaginary = struct.unpack_from("<d" if double else "<f", raw, 8 if double else 4)[0]
        return real if imaginary == 0 else [real, imaginary]


@lru_cache(maxsize=4096)
def parse(symbol: str) -> Routine | None:
    """The routine behind a symbol, or None where it is none that we watch.

    >>> parse("scipy_cblas_sgemm64_").name
    'sgemm'
    """
    if match := _BLAS.fullmatch(symbol):
        interface: Interface = "cblas" if match["cblas"] else "fortran"
        # Without a mark in the name 32 bits are read: right for either width below 2^31.
        width = 8 if "64" in match["suffix"] else 4
        return Routine(symbol, interface, match["type"], match["routine"], width)
    if match := _MIXED.fullmatch(symbol):
        return Routine(symbol, "cblas" if match["cblas"] else "fortran", "", match["name"], 4)
    if (match := _CUBLAS.fullmatch(symbol)) and (match["lt"] is None or match["type"] == ""):
        name = re.sub(r"(_v2)?(_64)?$", "", symbol)
        width = 8 if symbol.endswith("_64") else 4
        return Routine(symbol, "cublas", match["type"].lower(), name, width)
    return None


def watched(symbol: str) -> bool:
    return parse(symbol) is not None


def operand_elements(operation: str, arguments: Mapping[str, Any]) -> dict[str, int]:
    """Elements that a call reads of each input, from its arguments; {} where they are not known."""
    m, n, k = (arguments.get(name) for name in "mnk")
    if operation in ("gemm", "gemm3m") and m and n and k:
        return {"A": m * k, "B": k * n}
    if operation == "gemv" and m and n:
        return {"A": m * n, "x": m if arguments.get("transa") in ("t", "c") else n}
    if operation in ("syrk", "herk") and n and k:
        return {"A": n * k}
    if operation.startswith("dot") and n:
        return {"x": n, "y": n}
    return {}
