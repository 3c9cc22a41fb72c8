"""MLX on the CPU and on the GPU (Metal; CUDA on Linux).

The GPU part follows MLX's documentation and has not yet run on that hardware.
"""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING, Any

import numpy as np

from gemmgrid.measure import libraries
from gemmgrid.measure.adapters import _cuda
from gemmgrid.measure.adapters.base import (
    NAMES,
    Adapter,
    Call,
    DeviceMissing,
    conjugates,
    expression,
    packages,
    refuse,
    variables,
)
from gemmgrid.records.cell import Cell

if TYPE_CHECKING:
    from gemmgrid.measure.invocation.operands import Operands

QUEUED = "mx.async_eval starts the product; a batch is waited for at its end, by mx.synchronize"
DEVICE_FACTS = ("architecture", "device_name", "memory_size", "total_memory", "max_buffer_length",
                "max_recommended_working_set_size", "resource_limit", "compute_capability_major",
                "compute_capability_minor")  # fmt: skip
"""What of mx.device_info() is recorded: kinds and sizes, nothing that tells one card from another
(MLX's CUDA build adds the card's UUID and its place on the bus)."""


class MlxAdapter(Adapter):
    """mx.matmul, mx.inner, mx.addmm. MLX is lazy: nothing runs until mx.eval, so it is timed too.

    MLX copies the operands into memory of its own, and every call makes a new result. On the GPU
    the products of a batch are queued, as every library here does it there: mx.eval would wait for
    each, and time the wait.
    """

    library = "mlx"
    devices = ("cpu", "gpu")
    calls = ("matmul", "operator", "einsum")
    modes = ("lazy", "compiled")

    def __init__(self, device: str, options: dict[str, Any]) -> None:
        super().__init__(device, options)
        import mlx.core as mx

        self._mx = mx
        chosen = mx.Device(mx.gpu if device == "gpu" else mx.cpu)
        if device == "gpu" and not mx.is_available(chosen):
            raise DeviceMissing("MLX finds no GPU (Metal on Apple silicon, or a CUDA build)")
        mx.set_default_device(chosen)
        self._evaluate = "eval" if device == "cpu" else "async_eval"
        self._blas = None
        if device == "cpu":
            self._blas = libraries.serving(mx.__file__, libraries.CBLAS_SYMBOLS)

    def _unsupported(self, cell: Cell) -> str | None:
        options = cell.options
        if cell.dtype == "complex128":
            return "MLX has no complex128"
        if cell.dtype == "float64" and self.device == "gpu":
            return "MLX has float64 on the CPU only"
        if options.alloc:
            return "MLX always allocates the result, so this is its plain cell"
        if options.layout != "C" or options.pad:
            return "MLX chooses the layout of its arrays: row-major, without padding"
        if options.unaligned:
            return "MLX copies operands into its own memory, whose place cannot be chosen"
        if options.mode == "compiled" and (options.alpha != 1 or options.beta != 0):
            return "mx.compile is measured on plain products, without alpha and beta"
        if conjugates(cell):
            return "MLX has no conjugating view: mx.conj computes a copy"
        return None

    def set_threads(self, threads: int) -> None:
        """MLX has no function for it; Accelerate listens to VECLIB_MAXIMUM_THREADS."""

    def library_threads(self) -> int | None:
        return self._blas.threads() if self._blas else None

    def prepare(self, cell: Cell, operands: Operands) -> Call:
        refuse(self.unsupported(cell))
        mx, options = self._mx, cell.options
        A = self._placed(cell, operands.A)
        B = A if operands.B is operands.A else self._placed(cell, operands.B)
        a, b, out = NAMES[cell.routine]
        names = {"mx": mx, a: A, b: B}
        a, b = (_transposed(*pair, cell) for pair in zip((a, b), options.trans, strict=True))
        where = None if self.device == "cpu" else QUEUED
        if options.alpha == 1 and options.beta == 0:
            product = expression(cell, "mx", a, b)
            if cell.routine == "dot" and options.call == "auto":
                product = f"mx.inner({a}, {b})"
            if options.mode == "compiled":
                first, second, _ = NAMES[cell.routine]
                meaning = f"lambda {first}, {second}: {product}"
                names["product"] = mx.compile(eval(meaning, {"mx": mx}))
                product = f"product({first}, {second})"
                compiled = f"product = mx.compile({meaning})"
                where = f"{compiled}; {where}" if where else compiled
        else:
            assert operands.C is not None
            start = operands.C0 if operands.C0 is not None else np.zeros_like(operands.C)
            names["C0"] = self._placed(cell, start)
            product = f"mx.addmm(C0, {a}, {b}, {options.alpha!r}, {options.beta!r})"
        return Call(
            statement=f"{out} = {product}; mx.{self._evaluate}({out})",
            names=names,
            result=lambda names: self._fetched(names[out]),
            fence="mx.synchronize()",
            where=where,
            addresses={"A": self._address(A), "B": self._address(B)},
            unknown={"C": "MLX makes a new result in every call"},
        )

    def identify(self) -> dict[str, Any]:
        unknown = {}
        library = libraries.describe(self._blas) if self._blas else self._gpu_library()
        if library is None:
            unknown["library"] = "MLX is bound to no BLAS library that is known"
        elif self.device == "cpu":
            library["note"] = "float16 and bfloat16 are computed by MLX's own simd_gemm"
        return {
            "packages": packages("mlx", "mlx-cpu", "mlx-metal", "mlx-cuda", "numpy"),
            "library": library,
            "precision": variables("MLX_ENABLE_TF32"),
            "device": self._device_facts(),
            "unknown": unknown,
        }

    def _placed(self, cell: Cell, array: np.ndarray) -> Any:
        """MLX's own copy, evaluated before anything is timed."""
        mx = self._mx
        copy = mx.array(array, dtype=getattr(mx, cell.dtype))
        mx.eval(copy)
        return copy

    def _address(self, array: Any) -> int:
        """Where MLX keeps the array (memory is unified on Apple silicon), through its buffer."""
        mx = self._mx
        if array.dtype == mx.bfloat16:  # the buffer protocol has no bfloat16
            array = array.view(mx.uint16)
        return int(np.array(array, copy=False).ctypes.data)

    def _fetched(self, array: Any) -> np.ndarray:
        mx = self._mx
        if array.dtype == mx.bfloat16:
            array = array.astype(mx.float32)
        return np.array(array)

    def _gpu_library(self) -> dict[str, Any] | None:
        if self.device == "cpu":
            return None
        if platform.system() != "Darwin":
            return _cuda.cublas()
        return libraries.describe_other(
            *("MLX Metal kernels", "mlx-metal", "MLX's own Metal kernels do not tell"),
            version=self._mx.__version__,
            file=os.path.realpath(self._mx.__file__),
        )

    def _device_facts(self) -> dict[str, Any] | None:
        if self.device == "cpu":
            return None
        told = self._mx.device_info()
        return {name: told[name] for name in DEVICE_FACTS if name in told}


def _transposed(name: str, letter: str, cell: Cell) -> str:
    """Lazy views, built anew in each call as users write them."""
    if letter == "n":
        return name
    return f"mx.swapaxes({name}, -1, -2)" if cell.options.batch > 1 else f"{name}.T"
