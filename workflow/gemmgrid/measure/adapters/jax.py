"""JAX on the CPU and on CUDA: `jax.jit` of the product, the operands as its arguments.

The CUDA part follows JAX's documentation and has not yet run on that hardware.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gemmgrid.measure import libraries
from gemmgrid.measure.adapters import _cuda
from gemmgrid.measure.adapters.base import (
    NAMES,
    Adapter,
    Call,
    DeviceMissing,
    expression,
    packages,
    refuse,
    subscripts,
    variables,
)
from gemmgrid.records.cell import Cell

if TYPE_CHECKING:
    from gemmgrid.measure.invocation.operands import Operands


class JaxAdapter(Adapter):
    """A jitted product a cell. On the CPU each call waits for its result: JAX runs independent
    computations side by side, which would time several at once. On CUDA they follow one another
    on one stream, so the last result of a batch is waited for.
    """

    library = "jax"
    devices = ("cpu", "cuda")
    calls = ("matmul", "dot", "operator", "einsum")
    modes = ("eager", "compiled")
    known_options: ClassVar = {
        "default_matmul_precision": "default | high | highest …: JAX's own words; on NVIDIA GPUs "
        "its default computes float32 in TF32",
    }

    def __init__(self, device: str, options: dict[str, Any]) -> None:
        super().__init__(device, options)
        os.environ["JAX_ENABLE_X64"] = "true"  # without it float64 becomes float32 in silence
        os.environ["JAX_PLATFORMS"] = device
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # else 75 % of the memory
        import jax

        self._jax = jax
        precision = options.get("default_matmul_precision")
        if precision is not None:
            jax.config.update("jax_default_matmul_precision", precision)
        if device == "cuda":  # on the CPU this would start the client, before set_threads
            try:
                jax.devices("cuda")
            except (RuntimeError, AssertionError) as error:  # the latter without a CUDA plugin
                raise DeviceMissing(f"JAX finds no CUDA device: {error!r}") from error
        self._products: dict[tuple[Any, ...], Any] = {}

    def _unsupported(self, cell: Cell) -> str | None:
        options = cell.options
        if options.alloc:
            return "JAX always allocates the result, so this is its plain cell"
        if options.layout != "C" or options.pad:
            return "JAX chooses the layout of its arrays: row-major, without padding"
        if options.unaligned:
            return "JAX copies operands that it finds unaligned into its own memory"
        if options.mode == "eager" and (options.alpha != 1 or options.beta != 0):
            return "several functions of JAX one after another: alpha and beta need mode compiled"
        return None

    def set_threads(self, threads: int) -> None:
        """XLA reads NPROC when its CPU client starts, which is at the first array."""
        os.environ["NPROC"] = str(threads)

    def library_threads(self) -> int | None:
        return None

    def prepare(self, cell: Cell, operands: Operands) -> Call:
        refuse(self.unsupported(cell))
        A = self._placed(cell, operands.A)
        B = A if operands.B is operands.A else self._placed(cell, operands.B)
        a, b, out = NAMES[cell.routine]
        names, arguments = {a: A, b: B}, f"{a}, {b}"
        if operands.C0 is not None:
            names["C0"] = self._placed(cell, operands.C0)
            arguments += ", C0"
        if cell.options.mode == "eager":
            names["jnp"], where = self._jax.numpy, "jnp is jax.numpy; nothing is jitted around it"
            turned = (_turned(self._jax.numpy, letter)[1] for letter in cell.options.trans)
            product = expression(cell, "jnp", *map(str.format, turned, (a, b)))
        else:
            names["matmul"], meaning = self._product(cell)
            product, where = (
                f"matmul({arguments})",
                f"matmul = jax.jit(lambda {arguments}: {meaning})",
            )
        wait = ""
        if self.device == "cpu":
            product, wait = f"({product})" if "@" in product else product, ".block_until_ready()"
        return Call(
            statement=f"{out} = {product}{wait}",
            names=names,
            result=lambda names: _fetched(names[out]),
            fence=f"{out}.block_until_ready()" if self.device != "cpu" else None,
            where=where,
            addresses={"A": A.unsafe_buffer_pointer(), "B": B.unsafe_buffer_pointer()},
            unknown={"C": "JAX makes a new result in every call"},
        )

    def identify(self) -> dict[str, Any]:
        import jaxlib

        jax, unknown = self._jax, {"library_threads": "JAX does not tell; NPROC sets them"}
        library = _cuda.cublas() if self.device == "cuda" else _xla(Path(jaxlib.__file__).parent)
        return {
            "packages": packages(
                "jax", "jaxlib", "numpy", "jax-cuda13-plugin", "jax-cuda12-plugin", "nvidia-cublas"
            ),
            "library": library,
            "precision": {
                "jax_default_matmul_precision": jax.config.jax_default_matmul_precision,
                "jax_enable_x64": jax.config.jax_enable_x64,
                **variables("XLA_FLAGS", "NPROC", "NVIDIA_TF32_OVERRIDE"),
            },
            "device": self._device(unknown),
            "unknown": unknown,
        }

    def _product(self, cell: Cell) -> tuple[Any, str]:
        """The jitted function and what it computes; one for all sets of operands of a cell."""
        jnp, options = self._jax.numpy, cell.options
        (turn_a, shown_a), (turn_b, shown_b) = (_turned(jnp, letter) for letter in options.trans)
        a, b, _ = NAMES[cell.routine]
        meaning = f"{shown_a.format(a)} @ {shown_b.format(b)}"
        multiply = jnp.matmul
        if options.call == "einsum":
            multiply = partial(jnp.einsum, subscripts(cell))
        elif options.call == "dot":
            multiply = jnp.dot
        if options.call in ("matmul", "dot", "einsum"):
            meaning = expression(cell, "jnp", shown_a.format(a), shown_b.format(b))
        alpha, beta = options.alpha, options.beta
        if alpha != 1:
            meaning = f"{alpha!r} * ({meaning})"
        if beta != 0:
            meaning += f" + {beta!r} * C0"

        def product(first: Any, second: Any, start: Any = None) -> Any:
            result = multiply(turn_a(first), turn_b(second))
            result = result if alpha == 1 else alpha * result
            return result if beta == 0 else result + beta * start

        key = (options.trans, alpha, beta, cell.routine, options.call, options.batch > 1)
        if key not in self._products:
            self._products[key] = self._jax.jit(product)
        return self._products[key], meaning

    def _placed(self, cell: Cell, array: np.ndarray) -> Any:
        """On the device; on the CPU the operand's own memory, which JAX takes if it is aligned."""
        jax = self._jax
        placed = jax.device_put(array)
        if cell.dtype == "bfloat16":
            placed = placed.astype(jax.numpy.bfloat16)
        return placed.block_until_ready()

    def _device(self, unknown: dict[str, str]) -> dict[str, Any] | None:
        if self.device == "cpu":
            return None
        device = self._jax.devices()[0]
        return _cuda.device(
            unknown,
            name=device.device_kind,
            capability=getattr(device, "compute_capability", None),
            memory_bytes=(device.memory_stats() or {}).get("bytes_limit"),
        )


def _turned(jnp: Any, letter: str) -> tuple[Callable[[Any], Any], str]:
    """What a letter of `trans` does to an operand inside the jitted function, and its spelling."""
    if letter == "n":
        return (lambda operand: operand), "{}"
    if letter == "t":
        return (lambda operand: jnp.swapaxes(operand, -1, -2)), "{}.mT"
    return (lambda operand: jnp.conj(jnp.swapaxes(operand, -1, -2))), "{}.mT.conj()"


def _fetched(array: Any) -> np.ndarray:
    return np.array(array, np.float32 if array.dtype == "bfloat16" else None)


def _xla(folder: Path) -> dict[str, Any]:
    """XLA's own kernels on the CPU, all inside jaxlib: no BLAS library serves."""
    file = next((str(path) for path in folder.glob("libjax_common.*")), None)
    return libraries.describe_other(
        *(
            "XLA (YNNPACK, Eigen)",
            "xla",
            "XLA chooses and compiles its kernels for each computation",
        ),
        version=packages("jaxlib").get("jaxlib"),
        file=file,
        threading="XLA's thread pool",
        unknown={
            "interface": "does not apply: there is no BLAS interface",
            "file": f"{folder} holds no libjax_common",
        },
    )
