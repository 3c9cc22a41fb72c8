"""The environment of a measured process: threads set, everything that moves numbers taken away.

A variable in someone's shell (OPENBLAS_CORETYPE, NVIDIA_TF32_OVERRIDE, LD_PRELOAD …) would change
what is measured without a trace. So a measured process sees the cell's thread count, what its
backend asks for, and the rest of the shell without such variables; what was taken away is recorded.

Only names from the lists below are ever recorded, so that no secret of the shell enters a record;
the user's home folder is written as "~".
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "GOTO_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "FLEXIBLAS_NUM_THREADS",
    "ARMPL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NPROC",  # XLA's CPU thread pool, under JAX
    "PJRT_NPROC",
)
"""Variables by which libraries choose their number of threads."""

TAKEN_PREFIXES = (
    # BLAS and OpenMP: kernels, placement, waiting, threads
    *("OPENBLAS_", "GOTO_", "GOTOBLAS", "MKL_", "BLIS_", "FLEXIBLAS", "ARMPL_", "NVPL_", "AOCL_"),
    *("ATLAS_", "ESSL_", "LIBXSMM_", "VECLIB_", "OMP_", "KMP_", "GOMP_", "LIBOMP_", "TBB_"),
    # the libraries above them: precision, kernels, allocators, tracing
    *("ONEDNN_", "DNNL_", "TORCH_", "PYTORCH_", "TORCHINDUCTOR_", "ATEN_", "C10_", "XLA_", "JAX_"),
    *("JAXLIB_", "PJRT_", "TF_XLA_", "TF_ENABLE_", "TF_NUM_", "TF_GPU_", "MLX_", "MTL_", "METAL_"),
    *("NPY_", "NUMPY_", "SCIPY_", "NUMEXPR_", "CUBLAS", "CUDNN_", "CUPY_", "ROCBLAS_", "HIPBLAS"),
    # the C library, its loader and allocators
    *("MALLOC_", "JEMALLOC_", "TCMALLOC_", "MIMALLOC_", "LD_PRELOAD", "LD_AUDIT", "LD_BIND_NOW"),
    *("LD_DEBUG", "LD_PROFILE", "LD_HWCAP_MASK", "DYLD_INSERT_LIBRARIES", "DYLD_PRINT_"),
)
TAKEN = frozenset(
    {
        "NVIDIA_TF32_OVERRIDE",
        "CUDA_LAUNCH_BLOCKING",
        "CUDA_MODULE_LOADING",
        "CUDA_DEVICE_MAX_CONNECTIONS",
        "CUDA_FORCE_PTX_JIT",
        "CUDA_DISABLE_PTX_JIT",
        "CUDA_CACHE_DISABLE",
        "CUDA_INJECTION64_PATH",
        "GLIBC_TUNABLES",
        "NPROC",
        "PYTHON_CPU_COUNT",
        "PYTHON_GIL",
        "PYTHON_JIT",
        "PYTHON_PERF_JIT_SUPPORT",
    }
)
"""Variables that change numbers and do not share a prefix with harmless ones."""

_INTERPRETER = re.compile("PYTHON[A-Z]+")
"""Another path, allocator, optimisation or tracing; PYTHON_VERSION and the like are labels."""
HARMLESS = frozenset({"PYTHONUNBUFFERED", "PYTHONIOENCODING", "PYTHONUTF8"})
"""About text only. (PYTHONDONTWRITEBYTECODE is not: it makes every import compile anew.)"""
_SECRET = re.compile("TOKEN|SECRET|PASSW|CREDENTIAL|(^|_)KEY(_|$)")

KEPT = (
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "NVIDIA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "HSA_OVERRIDE_GFX_VERSION",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "DYLD_FALLBACK_LIBRARY_PATH",
    "MKLROOT",
)
"""Variables that stay as they are and are recorded: they choose devices and libraries."""


class MeasuredEnvironment(NamedTuple):
    """env goes to the process; set_variables (in force) and dropped go into the record."""

    env: dict[str, str]
    set_variables: dict[str, str]
    dropped: dict[str, str]


def measured_environment(
    cell_threads: int,
    device: str,
    wanted: Mapping[str, str],
    base: Mapping[str, str] = os.environ,
    keep: Iterable[str] = (),
) -> MeasuredEnvironment:
    """The environment for the invocations of a cell.

    cell_threads   threads of the cell (1 for a GPU's); they overrule every other wish
    device         "cpu", "cuda", "mps" or "gpu"
    wanted         variables of the backend's registry entry
    base           the environment that was inherited
    keep           names that stay though they are on the list, such as PYTHONPATH for an
                   interpreter of a site whose modules set it
    """
    kept = set(keep)
    env: dict[str, str] = {}
    dropped: dict[str, str] = {}
    for name, value in base.items():
        if name not in kept and is_suspicious(name):
            dropped[name] = _shown(name, value, base)
        else:
            env[name] = value
    chosen = {name: str(cell_threads) for name in THREADS}
    chosen["PYTHONNOUSERSITE"] = "1"  # a user's own packages must not shadow the environment's
    # PYTHONHASHSEED stays unset: each process then has its own, and the interval over processes
    # covers what it does to the layout of memory, instead of hiding it.
    if device in ("cuda", "gpu"):
        # Then CUDA counts devices as NVML does, and the right one is watched.
        chosen["CUDA_DEVICE_ORDER"] = env.get("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    for name, value in wanted.items():
        if name in THREADS and str(value) != chosen[name]:
            dropped[name] = _shown(name, str(value), base)
        else:
            chosen[name] = str(value)
    env.update(chosen)
    recorded = [*chosen, *(name for name in (*KEPT, *sorted(kept)) if name in env)]
    set_variables = {name: _shown(name, env[name], base) for name in recorded}
    # A thread variable that already had the cell's value was not taken away.
    dropped = {name: value for name, value in dropped.items() if set_variables.get(name) != value}
    return MeasuredEnvironment(env, set_variables, dropped)


def of_activation(activation: Mapping[str, str], wanted: Mapping[str, str]) -> frozenset[str]:
    """Variables that stay because an environment's packages set them, as MKL's interface layer.

    activation   what activating the environment sets
    wanted       variables of the backend's registry entry, which overrule it
    """
    set_by_cell = {*THREADS, *wanted}
    return frozenset(
        name
        for name in activation
        if is_suspicious(name) and name not in set_by_cell and not _INTERPRETER.fullmatch(name)
    )


def is_suspicious(name: str) -> bool:
    """Whether a variable of this name changes what a measured library does."""
    if name in TAKEN or name.startswith(TAKEN_PREFIXES):
        return True
    return name not in HARMLESS and _INTERPRETER.fullmatch(name) is not None


def _shown(name: str, value: str, base: Mapping[str, str]) -> str:
    """The value as it may stand in a record: no home folder, no device's own UUID."""
    if _SECRET.search(name):
        return "(not recorded)"
    home = base.get("HOME", "").rstrip("/")
    if home:
        value = re.sub(f"{re.escape(home)}(?=/|:|$)", "~", value)
    if name.endswith("VISIBLE_DEVICES"):
        value = ",".join(
            part.split("-")[0] + "-…" if part.startswith(("GPU-", "MIG-")) else part
            for part in value.split(",")
        )
    return value
