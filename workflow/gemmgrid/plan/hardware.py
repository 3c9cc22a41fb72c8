"""What this machine is, as far as a plan must know: platform, CPU model, GPU, and a name for it.

The name comes from the hardware, never from the hostname, so that results can be shared and two
alike machines can be told to be one. No subprocess: this is read at every parse.
"""

from __future__ import annotations

import ctypes
import platform
import re
import sys
from functools import cache
from pathlib import Path

from gemmgrid.plan import cpus

CPUINFO = Path("/proc/cpuinfo")
NVIDIA = Path("/proc/driver/nvidia")
NVIDIA_CONTROL = Path("/dev/nvidiactl")

_ARM_CORES = {
    ("0x41", "0xd03"): "arm-cortex-a53",
    ("0x41", "0xd08"): "arm-cortex-a72",
    ("0x41", "0xd0b"): "arm-cortex-a76",
    ("0x41", "0xd0c"): "arm-neoverse-n1",
    ("0x41", "0xd40"): "arm-neoverse-v1",
    ("0x41", "0xd49"): "arm-neoverse-n2",
    ("0x41", "0xd4f"): "arm-neoverse-v2",
    ("0x41", "0xd84"): "arm-neoverse-v3",
    ("0x41", "0xd8e"): "arm-neoverse-n3",
    ("0x46", "0x001"): "fujitsu-a64fx",
    ("0x48", "0xd01"): "hisilicon-kunpeng-920",
    ("0xc0", "0xac3"): "ampere-one",
    ("0xc0", "0xac4"): "ampere-one-a",
}
"""Implementer and part of /proc/cpuinfo on ARM, where Linux gives no model name.

From the kernel's arch/arm64/include/asm/cputype.h.
"""

_NOISE = re.compile(
    r"\((?:r|tm|c)\)|®|™|@.*$|\b(?:cpu|processor|platinum|gold|silver|bronze|geforce|nvidia"
    r"|w(?:ith|/) .* graphics|\d+(?:th|rd|nd|st) gen|\w+-core)\b",
    re.IGNORECASE,
)


def platform_name() -> str:
    """Operating system and architecture as the registry writes them: linux-x86_64, macos-arm64."""
    system = {"darwin": "macos"}.get(sys.platform, sys.platform)
    return f"{system}-{platform.machine().lower().replace('amd64', 'x86_64')}"


def has_cuda() -> bool:
    """Whether an NVIDIA driver is at work here."""
    return NVIDIA.exists() or NVIDIA_CONTROL.exists()


@cache
def machine_name() -> str:
    """This machine's own name, from CPU model, physical cores and GPU: `amd-epyc-2c`."""
    return compose_name(cpu_model(), cpus.machine_cores(), gpu_model())


def compose_name(cpu: str | None, cores: int, gpu: str | None) -> str:
    """`("Intel(R) Xeon(R) Platinum 8488C", 8, "NVIDIA H200")` → `intel-xeon-8488c-8c-h200`."""
    parts = [_short(cpu or platform.machine() or "cpu"), f"{cores}c"]
    if gpu:
        parts.append(_short(gpu))
    return "-".join(parts)[:64].rstrip("-._")


def cpu_model() -> str | None:
    """The CPU's model as the system names it; None where it does not."""
    if sys.platform == "darwin":
        return cpus.sysctl_text("machdep.cpu.brand_string")
    try:
        return model_in_cpuinfo(CPUINFO.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None


def model_in_cpuinfo(text: str) -> str | None:
    """The model in a Linux /proc/cpuinfo: x86 by its name, ARM by implementer and part."""
    fields = dict(
        reversed(re.findall(r"^([A-Za-z ]+?)\s*:[ \t]*(\S.*?)\s*$", text, re.MULTILINE)[:200])
    )
    name = fields.get("model name")
    if name and name != "unknown":
        return name
    core = (fields.get("CPU implementer", ""), fields.get("CPU part", ""))
    if core in _ARM_CORES:
        return _ARM_CORES[core]
    if all(core):
        return f"arm-{core[0]}-{core[1]}"
    return fields.get("cpu") or fields.get("Hardware") or fields.get("uarch")


def gpu_model() -> str | None:
    """The first NVIDIA GPU's model; "gpu" where there is one without a name; None without one."""
    for file in sorted(NVIDIA.glob("gpus/*/information")):
        try:
            match = re.search(
                r"^Model:\s*(\S.*?)\s*$", file.read_text(encoding="utf-8"), re.MULTILINE
            )
        except OSError:
            continue
        if match:
            return match[1]
    return (_nvml_model() or "gpu") if has_cuda() else None


def _nvml_model() -> str | None:
    """The first GPU's name from NVML: in containers /proc/driver/nvidia can be missing."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    if nvml.nvmlInit_v2() != 0:
        return None
    try:
        device, name = ctypes.c_void_p(), ctypes.create_string_buffer(96)
        if nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) != 0:
            return None
        found = nvml.nvmlDeviceGetName(device, name, ctypes.c_uint(96)) == 0
        return name.value.decode(errors="replace") if found else None
    finally:
        nvml.nvmlShutdown()


def _short(model: str) -> str:
    """A model as part of a name: without marks and marketing, lower case, words joined by `-`."""
    plain = _NOISE.sub(" ", model).casefold()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-") or "unknown"
