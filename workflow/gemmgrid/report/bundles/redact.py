"""Takes out of a record what tells who and where: only what is known to be harmless stays.

Numbers stay. A text stays where its key holds facts of hardware and software and it looks like one,
or where gemmgrid's own source has it; a variable stays where its name and value are known; a path
keeps its file's name, and its folders only inside the environment or the system's. Of other texts
the known phrases stay (`known_texts`). A key that gemmgrid does not write is left out.
"""

from __future__ import annotations

import getpass
import os
import re
import socket
from collections.abc import Mapping
from typing import Any

from gemmgrid.records.run import FLAGS
from gemmgrid.report.bundles.known_texts import GAP, is_ours, known_part

SLURM = {
    "node": "NODE",
    "job_id": "JOB",
    "partition": "PARTITION",
    "account": "ACCOUNT",
    "cluster": "CLUSTER",
    "qos": "QOS",
}
"""Facts of a run's job that identify, and the words that take their place."""
HIDDEN = "(not told)"
"""The value of a variable of a known name: a path, a list of devices by their ids …"""

_FACTS = frozenset(
    {
        # identities, times and versions
        *("id", "commit", "version", "started_at", "ended_at", "at", "recorded_at", "machine"),
        *("backend", "adapter", "lock", "lock_hash", "host_hash", "device_hash", "backend_hash"),
        *("fingerprint", "python", "driver", "cuda", "vbios", "microcode", "libc", "build"),
        *("address", "compute_capability", "macos", "macos_build", "platform", "study"),
        # hardware and system
        *("model", "vendor", "name", "isa", "os", "kernel", "governor", "energy_preference"),
        *("clock_driver", "turbo", "thp", "container", "virtualisation", "mig", "mitigations"),
        *("power_source", "throttle_reasons", "packages"),
        # code
        *("symbol", "routine", "function", "core", "expression", "expression_names", "args"),
        *("threading", "interface", "precision", "source"),
    }
)
"""Keys that hold facts of hardware and software, in any words."""
_NOT_A_FACT = re.compile(
    r"\w@\w|://|(?:^|[\s'\"=:,;(])[~/]\w|\\|[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-|[^\x20-\uffff]"
)
"""An address, a path, a UUID or a control character."""
_SOURCE = re.compile(r"[\w.-]+(?:/[\w.-]+)?@[\w.-]+ [\w./-]+")
"""Where a public repository says what should run: `OpenBLAS@0123abc kernel/x86_64/KERNEL`."""
_LONGEST_FACT = 1000
_OPEN_KEYS = frozenset({"mitigations", "packages"})
"""Mappings whose keys the system names, and not gemmgrid."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,80}")

_VARIABLES = frozenset(
    {
        *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "MKL_NUM_THREADS"),
        *("BLIS_NUM_THREADS", "FLEXIBLAS_NUM_THREADS", "ARMPL_NUM_THREADS", "NPROC", "PJRT_NPROC"),
        *("VECLIB_MAXIMUM_THREADS", "NUMEXPR_NUM_THREADS", "NUMEXPR_MAX_THREADS"),
        *("OMP_PROC_BIND", "OMP_PLACES", "OMP_DYNAMIC", "OMP_SCHEDULE", "OMP_WAIT_POLICY"),
        *("OMP_THREAD_LIMIT", "OMP_MAX_ACTIVE_LEVELS", "OMP_STACKSIZE", "GOMP_SPINCOUNT"),
        *("GOMP_CPU_AFFINITY", "KMP_AFFINITY", "KMP_BLOCKTIME", "KMP_HW_SUBSET"),
        *("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "OPENBLAS_VERBOSE", "OPENBLAS_MAIN_FREE"),
        *("OPENBLAS_BLOCK_FACTOR", "OPENBLAS_DEFAULT_NUM_THREADS", "OPENBLAS_THREAD_TIMEOUT"),
        *("MKL_ENABLE_INSTRUCTIONS", "MKL_CBWR", "MKL_DYNAMIC", "MKL_INTERFACE_LAYER"),
        *("MKL_THREADING_LAYER", "MKL_DEBUG_CPU_TYPE", "MKL_VERBOSE", "MKLROOT", "BLIS_ARCH_TYPE"),
        *("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "ONEDNN_VERBOSE", "DNNL_VERBOSE"),
        *("NVIDIA_TF32_OVERRIDE", "NVPL_BLAS_DEBUG_CPU_TYPE", "CUBLAS_WORKSPACE_CONFIG"),
        *("CUDA_LAUNCH_BLOCKING", "CUDA_MODULE_LOADING", "CUDA_DEVICE_MAX_CONNECTIONS"),
        *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES"),
        *("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HSA_OVERRIDE_GFX_VERSION"),
        *("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "TORCH_BLAS_PREFER_CUBLASLT", "XLA_FLAGS"),
        *("JAX_ENABLE_X64", "JAX_DEFAULT_MATMUL_PRECISION", "JAX_PLATFORMS", "MLX_ENABLE_TF32"),
        *("LD_PRELOAD", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH"),
        *("DYLD_INSERT_LIBRARIES", "LD_BIND_NOW", "GLIBC_TUNABLES", "MALLOC_ARENA_MAX"),
        *("PYTHONNOUSERSITE", "PYTHONPATH", "PYTHONHOME", "PYTHONHASHSEED", "PYTHONOPTIMIZE"),
        *("PYTHONDONTWRITEBYTECODE", "PYTHONMALLOC", "PYTHON_CPU_COUNT", "PYTHON_GIL"),
        *("PYTHON_JIT", "PYTHONSAFEPATH", "PYTHONFAULTHANDLER", "PYTHONWARNINGS"),
    }
)
"""Variables whose names tell nothing of anybody. Others are left out."""
_VALUES = frozenset(
    {
        *("true", "false", "yes", "no", "on", "off", "none", "default", "auto", "all", "disabled"),
        *("spread", "close", "master", "primary", "cores", "threads", "sockets", "ll_caches"),
        *("numa_domains", "active", "passive", "static", "dynamic", "guided", "compact"),
        *("scatter", "balanced", "granularity", "fine", "core", "thread", "verbose", "explicit"),
        *("haswell", "skylakex", "sandybridge", "nehalem", "zen", "zen2", "zen3", "zen4", "zen5"),
        *("cooperlake", "sapphirerapids", "neoversen1", "neoversev1", "neoversen2", "neoversev2"),
        *("cortexa57", "armv8", "armv8sve", "thunderx2t99", "vortex", "prescott", "barcelona"),
        *("bulldozer", "excavator", "steamroller", "piledriver", "power8", "power9", "power10"),
        *("avx", "avx2", "avx512", "avx512_e1", "avx512_e2", "avx512_e3", "avx512_e4", "sse4_2"),
        *("avx512_core", "avx512_core_vnni", "avx512_core_bf16", "avx512_core_fp16", "avx2_vnni"),
        *("avx512_core_amx", "sse41", "compatible", "strict", "intel", "gnu", "tbb", "sequential"),
        *("lp64", "ilp64", "pci_bus_id", "fastest_first", "lazy", "eager", "cpu", "cuda", "gpu"),
        *("high", "highest", "float32", "tensorfloat32", "bfloat16", "random", "error", "ignore"),
    }
)
"""Words that a variable's value may hold, in small letters."""

_NODE_WORD = re.compile(
    r"(?i)(?:sandy|ivy)bridge|haswell|broadwell|skylake|cascadelake|cooperlake|icelake|emerald"
    r"rapids|sapphirerapids|graniterapids|naples|rome|milan|genoa|bergamo|turin|zen\d|epyc|xeon|"
    r"amd|intel|arm|grace|neoverse\w\d|avx\w{0,12}|sse\d\w{0,4}|amx|sve\d?|gpu|nogpu|ib|edr|hdr|"
    r"ndr|[pvahbl]\d{1,3}|mi\d{3}\w?|rtx\d{4}"
)
_GRES = re.compile(rf"(?:gpu|mps|shard|mig)(?::(?:{_NODE_WORD.pattern}))?(?::\d+)?")
_SYSTEM = re.compile(
    r"(?:/usr(?:/local)?)?/lib(?:32|64)?/[\w.+/-]+|/opt/intel/[\w.+/-]+|/System/[\w.+/-]+|"
    r"/usr/local/cuda[\w.-]*/[\w.+/-]+"
)
_INSIDE = re.compile(r"(?:ENVIRONMENT/|lib/|lib64/)[\w.+/-]+")
_LIBRARY = re.compile(r"[\w.+-]+\.(?:so|dylib|dll|pyd|py)[\w.]*|lib[\w.+-]+|python[\d.]*")
_SHORTEST_NAME = 3
"""A name of one or two letters is part of too many words to be replaced."""


class Redactor:
    """Keeps of records what is known to be harmless; `user` and `host` are this process's own."""

    def __init__(self, user: str | None = None, host: str | None = None) -> None:
        self._names: list[tuple[re.Pattern[str], str]] = []
        name = _user() if user is None else user
        for text, word in ((name, "USER"), *_hosts(host)):
            if len(text) >= _SHORTEST_NAME and text not in ("root", "localhost"):
                bounded = rf"(?<![A-Za-z0-9_]){re.escape(text)}(?![A-Za-z0-9_])"
                self._names.append((re.compile(bounded, re.IGNORECASE), word))

    def run(self, run: Mapping[str, Any]) -> dict[str, Any]:
        """The run, with what is not known to be harmless replaced."""
        environment = run.get("environment")
        prefix = environment.get("prefix") if isinstance(environment, Mapping) else None
        own = prefix.rstrip("/") if isinstance(prefix, str) else ""
        return {key: self._value(key, value, own) for key, value in run.items()}

    def machine(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """machine.json likewise."""
        return {key: self._value(key, value, "") for key, value in document.items() if _key(key)}

    def _value(self, key: str, value: Any, prefix: str, slurm: bool = False) -> Any:
        if isinstance(value, str):
            return self._text(key, value, prefix, slurm)
        if isinstance(value, Mapping):
            if key in ("variables", "dropped_variables"):
                return _variables(value)
            if key == "problems":  # of the evidence: by the file that could not be looked at
                return {
                    self._text("file", str(name), prefix): self._value("", one, prefix)
                    for name, one in value.items()
                }
            inner = {name: one for name, one in value.items() if _key(name, key in _OPEN_KEYS)}
            return {
                name: self._value(
                    # Facts by a name that the system gave, and reasons by that of what is missing.
                    key if key in _OPEN_KEYS else "" if key == "unknown" else name,
                    one,
                    prefix,
                    key == "slurm",
                )
                for name, one in inner.items()
            }
        if isinstance(value, list):
            if key == "flags":
                return [one for one in value if one in FLAGS]
            if all(type(one) in (int, float) for one in value):
                return value
            return [self._value(key, one, prefix, slurm) for one in value]
        return value

    def _text(self, key: str, text: str, prefix: str, slurm: bool = False) -> str:
        if slurm and key in SLURM:
            return SLURM[key]
        if slurm and key == "features":
            return text if _NODE_WORD.fullmatch(text) else "FEATURE"
        if slurm and key == "gres":
            return text if _GRES.fullmatch(text) else "GRES"
        if key == "prefix":
            return "ENVIRONMENT"
        if key in ("file", "caller", "folder", "others") or "/" in text and key == "library":
            return self._named(_path(text, prefix))
        if is_ours(text):
            return text
        if key == "source" and _SOURCE.fullmatch(text):
            return text
        if key in _FACTS or (key == "library" and _LIBRARY.fullmatch(text)):
            if len(text) > _LONGEST_FACT or _NOT_A_FACT.search(text):
                return GAP
            return self._named(text) if key == "kernel" else text
        return known_part(text)

    def _named(self, text: str) -> str:
        for pattern, word in self._names:
            text = pattern.sub(word, text)
        return text


def identity() -> dict[str, str]:
    """Who and where, for a manifest whose maker asked for it."""
    return {"host": socket.gethostname(), "user": _user()}


def _path(path: str, prefix: str) -> str:
    if prefix and path.startswith(f"{prefix}/"):
        path = f"ENVIRONMENT{path[len(prefix) :]}"
    if ".." not in path.split("/") and (_SYSTEM.fullmatch(path) or _INSIDE.fullmatch(path)):
        return path
    name = re.split(r"[/\\]", path)[-1]
    return f"{GAP}/{name}" if _LIBRARY.fullmatch(name) else GAP


def _variables(found: Mapping[str, Any]) -> dict[str, str]:
    """Those of known names; their values where they are numbers and known words."""
    return {
        name: value if isinstance(value, str) and _is_plain(value) else HIDDEN
        for name, value in found.items()
        if name in _VARIABLES
    }


def _is_plain(value: str) -> bool:
    words = re.findall(r"[A-Za-z_][A-Za-z0-9_]*", re.sub(r"\b\d+[kKmMgGx]\b", "", value))
    return re.fullmatch(r"[\w\s,.;:{}()*=+-]*", value, re.ASCII) is not None and all(
        word.lower() in _VALUES for word in words
    )


def _key(name: Any, is_open: bool = False) -> bool:
    if is_open:
        return _NAME.fullmatch(name) is not None
    return all(is_ours(part) for part in (name, *name.split("."))[name.count(".") > 0 :])


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return os.environ.get("USER", "")


def _hosts(host: str | None) -> list[tuple[str, str]]:
    name = socket.gethostname() if host is None else host
    return [(name, "HOST"), (name.partition(".")[0], "HOST")] if name else []
