"""What this machine is, as far as a plan must know: platform, CPU model, GPU, and a name for it.

The name comes from the hardware, never from the hostname, so that results can be shared and two
alike machines can be told to be one. No subprocess: this is read at every parse.
"""

from __future__ import annotations

import platform
import re
import sys
from functools import cache
from pathlib import Path

from gemmgrid.system import arm, cpus, macos
from gemmgrid.system.files import ROOT, text

NVIDIA = Path("/proc/driver/nvidia")
NVIDIA_CONTROL = Path("/dev/nvidiactl")

_NOISE = re.compile(
    r"\((?:r|tm|c)\)|®|™|@.*$|\b(?:cpu|processor|platinum|gold|silver|bronze|geforce|nvidia"
    r"|w(?:ith|/) .* graphics|\d+(?:th|rd|nd|st) gen|\w+-core)\b",
    re.IGNORECASE,
)


def platform_name() -> str:
    """Operating system and architecture as the registry writes them: linux-x86_64, macos-arm64."""
    system = {"darwin": "macos"}.get(sys.platform, sys.platform)
    return f"{system}-{platform.machine().lower().replace('amd64', 'x86_64')}"


def macos_version() -> str:
    """This Mac's system, such as 15.4.1; empty elsewhere."""
    return platform.mac_ver()[0]


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
    if macos.is_darwin():
        return macos.sysctl_text("machdep.cpu.brand_string")
    return model_in_cpuinfo(text(ROOT, "proc/cpuinfo") or "")


def model_in_cpuinfo(listing: str) -> str | None:
    """The model in a Linux /proc/cpuinfo: x86 by its name, Arm by implementer and part."""
    fields = dict(
        reversed(re.findall(r"^([A-Za-z ]+?)\s*:[ \t]*(\S.*?)\s*$", listing, re.MULTILINE)[:200])
    )
    name = fields.get("model name")
    if name and name != "unknown":
        return name
    implementer, part = fields.get("CPU implementer", ""), fields.get("CPU part", "")
    if implementer.startswith("0x") and part.startswith("0x"):
        return arm.name(int(implementer, 16), int(part, 16)) or f"arm-{implementer}-{part}"
    return fields.get("cpu") or fields.get("Hardware") or fields.get("uarch")


def gpu_model() -> str | None:
    """The first NVIDIA GPU's model; "gpu" where there is one without a name; None without one."""
    for file in sorted(NVIDIA.glob("gpus/*/information")):
        try:
            told = file.read_text(encoding="utf-8", errors="replace")
            match = re.search(r"^Model:\s*(\S.*?)\s*$", told, re.MULTILINE)
        except OSError:
            continue
        if match:
            return match[1]
    return (_nvml_model() or "gpu") if has_cuda() else None


def _nvml_model() -> str | None:
    """The first GPU's name from NVML: in containers /proc/driver/nvidia can be missing."""
    import pynvml

    try:
        pynvml.nvmlInit()
        name: str = pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(0))
        pynvml.nvmlShutdown()
    except pynvml.NVMLError:
        return None
    return name


def _short(model: str) -> str:
    """A model as part of a name: without marks and marketing, lower case, words joined by `-`."""
    plain = _NOISE.sub(" ", model).casefold()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-") or "unknown"
