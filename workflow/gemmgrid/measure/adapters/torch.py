"""PyTorch on the CPU, on CUDA and on Apple's MPS.

CUDA and MPS parts follow PyTorch's documentation and have not yet run on that hardware.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gemmgrid.measure import libraries
from gemmgrid.measure.adapters import _cuda
from gemmgrid.measure.adapters.base import (
    ALIGNMENT,
    NAMES,
    NEW_RESULT,
    Adapter,
    Call,
    DeviceMissing,
    expression,
    nan_of,
    packages,
    refuse,
    sibling,
    variables,
)
from gemmgrid.records.cell import Cell

if TYPE_CHECKING:
    from gemmgrid.measure.invocation.operands import Operands

PRECISIONS = ("highest", "high", "medium")
FENCES = {"cuda": "torch.cuda.synchronize()", "mps": "torch.mps.synchronize()"}
NO_ADDRESS = "on MPS a tensor's pointer is the handle of Metal's buffer, not where its memory lies"


class TorchAdapter(Adapter):
    """torch.matmul, torch.mv, torch.dot, and with alpha or beta torch.addmm and its kin.

    On the CPU, tensors share the operands' memory. Gradients are switched off for the process.
    """

    library = "torch"
    devices = ("cpu", "cuda", "mps")
    calls = ("matmul", "dot", "operator", "out", "einsum")
    modes = ("eager", "compiled")
    known_options: ClassVar = {
        "float32_matmul_precision": " | ".join(PRECISIONS),
        "compile_mode": "default | reduce-overhead | max-autotune: of torch.compile",
        "reduced_precision_reduction": "true | false: float16 and bfloat16 sums on CUDA",
    }

    def __init__(self, device: str, options: dict[str, Any]) -> None:
        super().__init__(device, options)
        import torch

        self._torch = torch
        if device == "cuda" and not torch.cuda.is_available():
            raise DeviceMissing("PyTorch finds no CUDA device (a CPU build, or no driver)")
        if device == "mps" and not torch.backends.mps.is_available():
            raise DeviceMissing("PyTorch finds no MPS device (macOS on Apple silicon has it)")
        torch.set_grad_enabled(False)
        precision = options.get("float32_matmul_precision")
        if precision is not None:
            torch.set_float32_matmul_precision(precision)
        reduction = options.get("reduced_precision_reduction")
        if reduction is not None:
            torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = reduction
            torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = reduction

    def _unsupported(self, cell: Cell) -> str | None:
        if self.device == "mps" and cell.dtype in ("float64", "complex128"):
            return f"Apple's MPS has no {cell.dtype}"
        options = cell.options
        if options.call == "dot" and cell.routine != "dot":
            return "torch.dot takes vectors only"
        if options.mode == "compiled" and (options.alpha != 1 or options.beta != 0):
            return "torch.compile is measured on plain products, without alpha and beta"
        if options.mode == "compiled" and options.call == "out":
            return "what torch.compile makes returns a new result"
        return None

    def set_threads(self, threads: int) -> None:
        self._torch.set_num_threads(threads)

    def library_threads(self) -> int | None:
        return int(self._torch.get_num_threads())

    def prepare(self, cell: Cell, operands: Operands) -> Call:
        refuse(self.unsupported(cell))
        torch = self._torch
        a, b, out = NAMES[cell.routine]
        A = self._placed(cell, operands.A)
        B = A if operands.B is operands.A else self._placed(cell, operands.B)
        names, tensors = {"torch": torch, a: A, b: B}, {"A": A, "B": B}
        a, b = (_transposed(*pair, cell) for pair in zip((a, b), cell.options.trans, strict=True))
        if cell.options.mode == "compiled":
            made = self._compiled(cell, a, b)
            return self._call(f"{out} = {made[0]}", names | made[1], out, tensors, made[2])
        if cell.options.call not in ("auto", "out"):
            statement = f"{out} = {expression(cell, 'torch', a, b)}"
            return self._call(statement, names, out, tensors)
        written = _written(cell, a, b, out)
        where = poison = None
        C = None if operands.C is None else self._placed(cell, operands.C)
        if C is None or cell.options.alloc:
            statement = f"{out} = {written})"
            if f"({out}," in written:  # torch.addmm takes a C also where beta is 0
                names[out], where = C, f"{out} is not read where beta is 0"
        else:
            statement = f"{written}, out={out})"
            names[out] = tensors["C"] = C
            C0 = None if operands.C0 is None else self._placed(cell, operands.C0)
            poison = self._resetter(cell, C, C0)
        return self._call(statement, names, out, tensors, where, poison)

    def _compiled(self, cell: Cell, a: str, b: str) -> tuple[str, dict[str, Any], str]:
        """The call of a compiled product, its names, and what it stands for.

        A function of its own for each cell: to a second shape Inductor would adapt by a program for
        all shapes.
        """
        first, second, _ = NAMES[cell.routine]
        meaning = f"lambda {first}, {second}: {expression(cell, 'torch', a, b)}"
        mode = self.options.get("compile_mode", "default")
        product = self._torch.compile(
            eval(meaning, {"torch": self._torch}), dynamic=False, mode=mode
        )
        shown = "" if mode == "default" else f", mode={mode!r}"
        where = f"product = torch.compile({meaning}, dynamic=False{shown})"
        return f"product({first}, {second})", {"product": product}, where

    def _call(
        self,
        statement: str,
        names: dict[str, Any],
        out: str,
        tensors: dict[str, Any],
        where: str | None = None,
        poison: Callable[[], None] | None = None,
    ) -> Call:
        """The statement on this device; tensors: those whose memory a call reads and writes."""
        torch = self._torch
        unknown = {} if "C" in tensors else {"C": NEW_RESULT}
        if self.device == "mps":
            tensors, unknown = {}, {**dict.fromkeys("ABC", NO_ADDRESS), **unknown}
        return Call(
            statement,
            names,
            result=lambda names: self._fetched(names[out]),
            fence=FENCES.get(self.device),
            poison=poison,
            device_timer=(lambda: CudaTimer(torch)) if self.device == "cuda" else None,
            where=where,
            addresses={name: tensor.data_ptr() for name, tensor in tensors.items()},
            unknown=unknown,
        )

    def identify(self) -> dict[str, Any]:
        unknown: dict[str, str] = {}
        library = {"cpu": self._cpu_library, "cuda": _cuda.cublas, "mps": _mps_library}
        identity = {
            "packages": packages("torch", "numpy", "mkl", "nvidia-cublas", "nvidia-cublas-cu12"),
            "library": library[self.device](),
            "precision": self._precision(),
            "device": self._device(unknown),
            "unknown": unknown,
        }
        if identity["library"] is None:
            unknown["library"] = "libtorch_cpu is bound to no BLAS library that is known"
        return identity

    def _placed(self, cell: Cell, array: np.ndarray) -> Any:
        """A tensor with the array's values, shape, strides, and place in its cache line."""
        torch = self._torch
        dtype = getattr(torch, cell.dtype)
        if self.device != "cpu":
            return on_device(torch, array, dtype, self.device)
        if dtype != torch.bfloat16:
            return torch.from_numpy(array)  # shares the memory
        tensor = torch.from_numpy(sibling(array, np.int16)).view(dtype)
        return tensor.copy_(torch.from_numpy(array))

    def _fetched(self, tensor: Any) -> np.ndarray:
        """A copy on the host."""
        torch = self._torch
        tensor = tensor.to("cpu", dtype=torch.float32 if tensor.dtype == torch.bfloat16 else None)
        return np.array(tensor.resolve_conj().numpy())

    def _resetter(self, cell: Cell, C: Any, C0: Any) -> Callable[[], None]:
        def reset() -> None:
            if cell.options.beta != 0:
                C.copy_(C0)
            else:
                C.fill_(nan_of(cell.dtype))
            if self.device != "cpu":
                getattr(self._torch, self.device).synchronize()

        return reset

    def _cpu_library(self) -> dict[str, Any] | None:
        """BLAS as libtorch_cpu is bound to it: its own static MKL, or one of the environment.

        float16 and bfloat16 go to oneDNN, which is inside libtorch_cpu and named in the precision.
        """
        folder = Path(self._torch.__file__).parent / "lib"
        file = next((str(file) for file in folder.glob("libtorch_cpu.*")), None)
        symbols = [*libraries.FORTRAN_SYMBOLS, *libraries.CBLAS_SYMBOLS]
        blas = libraries.serving(file, symbols)
        return libraries.describe(blas) if blas else None

    def _precision(self) -> dict[str, Any]:
        torch, matmul = self._torch, self._torch.backends.cuda.matmul
        built = torch.__config__.show().splitlines()
        knobs: dict[str, Callable[[], Any]] = {
            "float32_matmul_precision": torch.get_float32_matmul_precision,
            "cuda.allow_tf32": lambda: matmul.allow_tf32,
            "cuda.fp32_precision": lambda: matmul.fp32_precision,
            "cuda.fp16_reduced": lambda: matmul.allow_fp16_reduced_precision_reduction,
            "cuda.bf16_reduced": lambda: matmul.allow_bf16_reduced_precision_reduction,
            "cuda.fp16_accumulation": lambda: matmul.allow_fp16_accumulation,
            "cuda.preferred_blas": lambda: str(torch.backends.cuda.preferred_blas_library()),
            "mkldnn.fp32_precision": lambda: torch.backends.mkldnn.matmul.fp32_precision,
            "mkldnn": lambda: next((line.strip(" -") for line in built if "MKL-DNN" in line), None),
            "cpu_capability": torch.backends.cpu.get_cpu_capability,
        }
        return {
            **{knob: _asked(ask) for knob, ask in knobs.items()},
            **variables(
                "ONEDNN_DEFAULT_FPMATH_MODE",
                "ONEDNN_MAX_CPU_ISA",
                "MKL_ENABLE_INSTRUCTIONS",
                "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
                "NVIDIA_TF32_OVERRIDE",
                "TORCH_BLAS_PREFER_CUBLASLT",
                "DISABLE_ADDMM_CUDA_LT",
                "PYTORCH_MPS_PREFER_METAL",
            ),
        }

    def _device(self, unknown: dict[str, str]) -> dict[str, Any] | None:
        torch = self._torch
        if self.device == "cpu":
            return None
        if self.device == "mps":
            unknown["device.driver"] = "Apple's GPU driver is a part of macOS"
            memory = torch.mps.recommended_max_memory()
            return {"name": "Apple GPU (MPS)", "driver": None, "memory_bytes": memory}
        facts = torch.cuda.get_device_properties(torch.cuda.current_device())
        return _cuda.device(
            unknown,
            name=facts.name,
            capability=f"{facts.major}.{facts.minor}",
            multiprocessors=facts.multi_processor_count,
            memory_bytes=facts.total_memory,
            cuda=torch.version.cuda,
        )


def on_device(torch: Any, array: np.ndarray, dtype: Any, device: str) -> Any:
    """A copy on a device, whose allocator aligns to more than a cache line."""
    strides = [stride // array.itemsize for stride in array.strides]
    offset = array.ctypes.data % ALIGNMENT // dtype.itemsize
    pairs = zip(array.shape, strides, strict=True)
    span = 1 + sum((size - 1) * stride for size, stride in pairs)
    buffer = torch.zeros(offset + span, dtype=dtype, device=device)
    return buffer.as_strided(array.shape, strides, offset).copy_(torch.from_numpy(array))


class CudaTimer:
    """CUDA events around a batch, on the current stream. Not yet run on that hardware."""

    def __init__(self, torch: Any) -> None:
        self._start = torch.cuda.Event(enable_timing=True)
        self._stop = torch.cuda.Event(enable_timing=True)

    def start(self) -> None:
        self._start.record()

    def stop(self) -> None:
        self._stop.record()

    def read(self) -> int:
        self._stop.synchronize()
        return round(self._start.elapsed_time(self._stop) * 1e6)  # milliseconds to nanoseconds


def _written(cell: Cell, a: str, b: str, out: str) -> str:
    """The call without its closing bracket, so that out= can follow."""
    options = cell.options
    if options.alpha == 1 and options.beta == 0:
        function = {"dot": "dot", "gemv": "mv", "gemm": "matmul"}[cell.routine]
        return f"torch.{function}({a}, {b}"
    add = "addmv" if cell.routine == "gemv" else "baddbmm" if options.batch > 1 else "addmm"
    return f"torch.{add}({out}, {a}, {b}, beta={options.beta!r}, alpha={options.alpha!r}"


def _transposed(name: str, letter: str, cell: Cell) -> str:
    """Views, .mH a lazily conjugated one; of a real matrix it is the plain transpose."""
    if letter == "n":
        return name
    return f"{name}.mH" if letter == "c" and cell.is_complex else f"{name}.mT"


def _asked(ask: Callable[[], Any]) -> Any:
    """The value of a knob; PyTorch raises where old and new spellings were mixed."""
    try:
        return ask()
    except (RuntimeError, AttributeError) as error:
        return f"unreadable: {str(error).splitlines()[0]}"


def _mps_library() -> dict[str, Any]:
    import platform

    version = f"macOS {platform.mac_ver()[0]}"
    reason = "Apple's frameworks do not tell"
    return libraries.describe_other("MPSGraph", "mpsgraph", reason, version=version)
