"""What ran on a GPU: kernel names from PyTorch's profiler, and the logs of cuBLAS and of MPS.

Written from the formats that NVIDIA and PyTorch document and that public logs show. Not yet run on
a GPU.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gemmgrid.measure.dispatch.library_logs.cpu_libraries import LoggedCall

CUBLAS_LOG, CUBLASLT_LOG = "cublas.log", "cublaslt.log"
"""File names in the folder that `log_variables` was given."""

# aten/src/ATen/mps/MPSProfiler.h: bit 0 of the options prints a line for each operation.
_MPS_OPERATIONS = "1"
_MPS_LINE = re.compile(r"aten::(?P<key>[^ ]+) \(id=(?P<kind>[GK])\d+, run=\d+")
_CUBLAS_CALL = re.compile(r"I! cuBLAS \(v(?P<version>[\d.]+)\) function \w+ (?P<name>\w+)\(")
_CUBLAS_ARGUMENT = re.compile(r"i!\s+(?P<name>\w+): type=[^;]+; val=(?P<value>.+)")
_CUBLASLT_CALL = re.compile(r"\[cublasLt\]\[\d+\]\[Trace\]\[(?P<name>cublasLtMatmul)\](?P<rest>.*)")
_CUBLASLT_LAYOUT = re.compile(r"(?P<matrix>[ABCD])desc=\[type=(?P<type>\w+) rows=(\d+) cols=(\d+)")
_CUBLASLT_FACTS = (("computeType", "compute_type"), ("tile", "tile"), ("algoId", "algorithm"))
_CUBLAS_PRODUCT = re.compile(r"gemm|gemv|dot|syrk|ger|Matmul", re.IGNORECASE)
_HELPER_KERNEL = re.compile(r"memset|memcpy|fill|copy|elementwise|splitKreduce", re.IGNORECASE)


@dataclass
class DeviceKernel:
    """A kernel that ran on the device: how often, and its share of the device's time."""

    name: str
    count: int
    share: float


def log_variables(device: str, folder: str) -> dict[str, str]:
    """Variables that switch the device's logs on; set them before the library is imported."""
    if device == "cuda":
        return {
            "CUBLAS_LOGINFO_DBG": "1",
            "CUBLAS_LOGDEST_DBG": str(Path(folder, CUBLAS_LOG)),
            "CUBLASLT_LOG_LEVEL": "5",
            "CUBLASLT_LOG_FILE": str(Path(folder, CUBLASLT_LOG)),
        }
    if device == "mps":
        return {"PYTORCH_MPS_LOG_PROFILE_INFO": _MPS_OPERATIONS}
    return {}


def profile_torch(run: Callable[[], object], synchronize: Callable[[], None]) -> list[DeviceKernel]:
    """Run once under PyTorch's profiler; the kernels by device time, helpers left out."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        run()
        synchronize()
    times: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for event in profiler.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            times[event.name] += event.time_range.elapsed_us()
            counts[event.name] += 1
    return rank_kernels(times, counts)


def rank_kernels(times: Counter[str], counts: Counter[str]) -> list[DeviceKernel]:
    """Kernels by their share of the time of all of them; helpers count into the whole only."""
    whole = sum(times.values()) or 1
    return [
        DeviceKernel(name, counts[name], round(spent / whole, 3))
        for name, spent in times.most_common()
        if not _HELPER_KERNEL.search(name)
    ]


def read_logs(folder: Path, skip: Mapping[str, int]) -> list[LoggedCall]:
    """The products in cuBLAS's and cuBLASLt's log files, after the first `skip` bytes of each."""
    calls = []
    for name, read in ((CUBLAS_LOG, parse_cublas), (CUBLASLT_LOG, parse_cublaslt)):
        file = folder / name
        if file.is_file():
            text = file.read_bytes()[skip.get(name, 0) :].decode("utf-8", "replace")
            calls += read(text)
    return calls


def log_sizes(folder: Path) -> dict[str, int]:
    """Bytes in each log now, for `read_logs` to leave out what came before."""
    files = [folder / name for name in (CUBLAS_LOG, CUBLASLT_LOG)]
    return {file.name: file.stat().st_size for file in files if file.is_file()}


def parse_cublas(text: str) -> list[LoggedCall]:
    """The products in a log of cuBLAS (CUBLAS_LOGINFO_DBG)."""
    calls: list[LoggedCall] = []
    open_call: LoggedCall | None = None
    for line in text.splitlines():
        if head := _CUBLAS_CALL.match(line):
            open_call = None
            if _CUBLAS_PRODUCT.search(head["name"]):
                name = re.sub(r"(_v2)?(_64)?$", "", head["name"])
                open_call = LoggedCall(f"cuBLAS {head['version']}", name, head["name"])
                calls.append(open_call)
        elif open_call and (argument := _CUBLAS_ARGUMENT.match(line)):
            value = _cublas_value(argument["value"].strip())
            if value is not None:
                open_call.arguments[argument["name"]] = value
    return calls


def _cublas_value(text: str) -> Any:
    """A number or a flag; addresses and handles say nothing."""
    if text.startswith("POINTER"):
        return None
    if operation := re.match(r"CUBLAS_OP_([NTC])", text):
        return operation[1].lower()
    return int(text) if text.lstrip("-").isdigit() else text


def parse_cublaslt(text: str) -> list[LoggedCall]:
    """The products in a log of cuBLASLt (CUBLASLT_LOG_LEVEL=5): A is k×m or m×k, as stored."""
    calls = []
    for line in text.splitlines():
        head = _CUBLASLT_CALL.search(line)
        if head is None:
            continue
        arguments: dict[str, Any] = {}
        for matrix, kind, rows, columns in _CUBLASLT_LAYOUT.findall(head["rest"]):
            arguments[f"{matrix}_type"] = kind
            if matrix == "D":
                arguments.update(m=int(rows), n=int(columns))
            elif matrix == "A":
                arguments["A_shape"] = [int(rows), int(columns)]
        shape = arguments.pop("A_shape", None)
        if shape and "m" in arguments:
            arguments["k"] = shape[1] if shape[0] == arguments["m"] else shape[0]
        for key, name in _CUBLASLT_FACTS:
            if found := re.search(rf"\b{key}=(\w+)", head["rest"]):
                arguments[name] = found[1]
        calls.append(LoggedCall("cuBLASLt", "cublasLtMatmul", "cublasLtMatmul", arguments))
    return calls


def parse_mps(text: str) -> list[LoggedCall]:
    """Operations in PyTorch's MPS log: G is a graph of Apple's MPSGraph, K a Metal kernel.

    Format: OperationInfo::toString in aten/src/ATen/mps/MPSProfiler.mm.
    """
    calls = []
    for match in _MPS_LINE.finditer(text):
        key = match["key"].split(":")[0]
        if not re.search(r"mm|matmul|dot|addmv|mv|linear", key):
            continue
        library = "MPSGraph" if match["kind"] == "G" else "Metal"
        routine = "MPSGraph matrixMultiplication" if match["kind"] == "G" else key
        calls.append(LoggedCall(library, routine, key, {}, None if library == "MPSGraph" else key))
    return calls
