"""What an NVIDIA GPU is and how it feels: facts, context and conditions, through NVML.

NVML is NVIDIA's own library of the driver, called through nvidia-ml-py. A value that this GPU,
driver or permission does not give is None, with the reason in `unknown`. On a Mac nothing like NVML
exists for programs without root, so there are no clocks and no power to be had.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from gemmgrid.records.run import now

LIBRARY = "libnvidia-ml.so.1"
SM_CLOCK, MEMORY_CLOCK = 1, 2  # NVML_CLOCK_SM, NVML_CLOCK_MEM
GPU_TEMPERATURE = 0
CLOCK_REASONS = {
    0x001: "gpu-idle",
    0x002: "application-clocks",
    0x004: "sw-power-cap",
    0x008: "hw-slowdown",
    0x010: "sync-boost",
    0x020: "sw-thermal",
    0x040: "hw-thermal",
    0x080: "hw-power-brake",
    0x100: "display-clocks",
}
"""nvmlClocksEventReasons (before driver 535: nvmlClocksThrottleReasons), bit by bit."""
THROTTLING = frozenset({"hw-slowdown", "sw-thermal", "hw-thermal", "hw-power-brake"})
"""Reasons that hold clocks below what was asked for. Idling and chosen clocks do not, and neither
does the power cap by itself: a large product at full power is what the card is sold to do."""

WATCH_S = 0.2
MOST_SAMPLES = 600
"""Kept of one process: two minutes; a longer one is watched on without being kept."""


@lru_cache(maxsize=1)
def connect() -> tuple[Any, str]:
    """NVML (the module pynvml, started) for the life of this process, or None and the reason."""
    if not sys.platform.startswith("linux"):
        return None, f"NVML is looked for on Linux only, this is {sys.platform}"
    try:
        ctypes.CDLL(LIBRARY)  # first, because importing pynvml takes 50 ms on any machine
    except OSError as error:
        return None, f"{LIBRARY} (part of the NVIDIA driver): {error}"
    try:
        import pynvml
    except ImportError:
        return None, "nvidia-ml-py is not installed beside Snakemake"
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return None, f"NVML: {error}"
    return pynvml, ""


def facts(nvml: Any) -> list[dict[str, Any]]:
    """What each GPU is: stable hardware facts and its driver."""
    try:
        count = nvml.nvmlDeviceGetCount()
    except nvml.NVMLError:
        return []
    return [{"vendor": "NVIDIA", **_ask(nvml, index, _FACTS)} for index in range(count)]


@dataclass(frozen=True)
class Card:
    """One GPU by NVML's index, which counts in the order of the PCI bus."""

    nvml: Any
    index: int

    def context(self) -> dict[str, Any]:
        """What can be changed on it and moves its speed: driver, firmware, caps, modes."""
        return _ask(self.nvml, self.index, _CONTEXT)

    def sample(self) -> dict[str, Any]:
        """Clocks, power, temperature, clock reasons and load at this moment: six driver calls."""
        return {"at": now(), **_ask(self.nvml, self.index, _SAMPLE)}

    def conditions(self) -> dict[str, Any]:
        """A sample, and what changes slowly: power cap, energy, free memory, who computes on it.

        Read it while no process of ours is on the GPU: all that are count as other_processes.
        """
        return {"at": now(), **_ask(self.nvml, self.index, _SAMPLE | _SLOW)}


def used(device: str, variables: Mapping[str, str] = os.environ) -> tuple[Card | None, str]:
    """The GPU that a process with these variables calls its first; None and the reason.

    device   "cpu", "cuda", "mps" or "gpu"
    """
    if device not in ("cuda", "gpu"):
        return None, f"NVML does not see the device {device}"
    nvml, reason = connect()
    if nvml is None:
        return None, reason
    index, reason = visible_index(nvml, variables)
    return (None, reason) if index is None else (Card(nvml, index), "")


def visible_index(nvml: Any, variables: Mapping[str, str]) -> tuple[int | None, str]:
    """NVML's index of the GPU that CUDA calls device 0, or None and the reason.

    Follows the CUDA C++ Programming Guide, "CUDA Environment Variables": CUDA_VISIBLE_DEVICES lists
    numbers, UUIDs (GPU-…, which may be cut short) or MIG instances (MIG-UUID, in older drivers
    MIG-GPU-UUID/i/j); what follows an entry that names nothing is hidden. Numbers count by the PCI
    bus as NVML's do, unless CUDA_DEVICE_ORDER leaves it to CUDA to put the fastest first.
    """
    handle = nvml.nvmlDeviceGetHandleByIndex
    try:
        count = nvml.nvmlDeviceGetCount()
        first = variables.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()
        if first.isdigit():
            by_bus = variables.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
            if not by_bus and len({nvml.nvmlDeviceGetName(handle(i)) for i in range(count)}) > 1:
                return None, "CUDA orders the GPUs of this machine by speed; see CUDA_DEVICE_ORDER"
            if int(first) < count:
                return int(first), ""
        elif first.startswith("MIG-") and not first.startswith("MIG-GPU-"):
            instance = nvml.nvmlDeviceGetHandleByUUID(first)
            card = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(instance)
            return nvml.nvmlDeviceGetIndex(card), ""
        elif first:
            wanted = first.removeprefix("MIG-").partition("/")[0]
            uuids = [nvml.nvmlDeviceGetUUID(handle(index)) for index in range(count)]
            found = [index for index, one in enumerate(uuids) if one.startswith(wanted)]
            if len(found) == 1:
                return found[0], ""
    except nvml.NVMLError as error:
        return None, f"the GPU of CUDA_VISIBLE_DEVICES cannot be found: {error}"
    return None, "CUDA_VISIBLE_DEVICES hides every GPU"


def throttled(samples: list[Mapping[str, Any]]) -> bool:
    """Whether any sample names a reason that held clocks back."""
    return any(THROTTLING & set(one.get("throttle_reasons") or ()) for one in samples)


def clock_reasons(mask: int) -> list[str]:
    """Names of the bits that are set; a bit that the table lacks is named by its number."""
    names = [name for bit, name in CLOCK_REASONS.items() if mask & bit]
    rest = mask & ~sum(CLOCK_REASONS)
    return names + [f"bit-{bit:#x}" for i in range(rest.bit_length()) if (bit := rest & (1 << i))]


class GpuWatch:
    """Samples a GPU at 5 Hz at most while a process runs; does nothing without one."""

    def __init__(self, card: Card | None) -> None:
        self.card = card
        self.begin()

    def begin(self) -> None:
        """A new process: forget what the last one saw."""
        self.samples: list[dict[str, Any]] = []
        self.flags: list[str] = []
        self.next = 0.0

    def look(self) -> None:
        """Take a sample if it is time for one."""
        if self.card is None or time.monotonic() < self.next:
            return
        self.next = time.monotonic() + WATCH_S
        sample = self.card.sample()
        if throttled([sample]):
            self.flags = ["throttled"]
        if len(self.samples) < MOST_SAMPLES:
            self.samples.append(sample)


Question = Callable[[Any, Any], Any]
"""Of NVML and a GPU's handle; raises NVMLError where there is no answer."""


def _ask(nvml: Any, index: int, questions: Mapping[str, Question]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    unknown: dict[str, str] = {}
    for key, question in questions.items():
        try:
            found[key] = question(nvml, nvml.nvmlDeviceGetHandleByIndex(index))
        except nvml.NVMLError as error:
            found[key] = None
            unknown[key] = f"NVML: {error}"
    return {**found, "unknown": unknown}


def _cuda(nvml: Any, _: Any) -> str:
    """Highest CUDA version that the driver serves, such as "13.0"."""
    version = nvml.nvmlSystemGetCudaDriverVersion()
    return f"{version // 1000}.{version % 1000 // 10}"


def _mig(nvml: Any, gpu: Any) -> list[str]:
    """Names of the MIG instances, such as "NVIDIA A100-SXM4-40GB MIG 3g.20gb"."""
    names: list[str] = []
    if nvml.nvmlDeviceGetMigMode(gpu)[0]:
        for slot in range(nvml.nvmlDeviceGetMaxMigDeviceCount(gpu)):
            with suppress(nvml.NVMLError):  # most slots of a divided GPU are empty
                instance = nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, slot)
                names.append(nvml.nvmlDeviceGetName(instance))
    return names


def _reasons(nvml: Any, gpu: Any) -> list[str]:
    try:
        return clock_reasons(nvml.nvmlDeviceGetCurrentClocksEventReasons(gpu))
    except nvml.NVMLError:  # the name before driver 535
        return clock_reasons(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu))


def _processes(nvml: Any, gpu: Any) -> int:
    try:
        return len(nvml.nvmlDeviceGetComputeRunningProcesses(gpu))
    except nvml.NVMLError:  # the name before driver 510
        return len(nvml.nvmlDeviceGetComputeRunningProcesses_v2(gpu))


_DRIVER: dict[str, Question] = {
    "driver": lambda nvml, _: nvml.nvmlSystemGetDriverVersion(),
    "cuda": _cuda,
}
_FACTS: dict[str, Question] = {
    "name": lambda nvml, gpu: nvml.nvmlDeviceGetName(gpu),
    "memory_bytes": lambda nvml, gpu: nvml.nvmlDeviceGetMemoryInfo(gpu).total,
    "compute_capability": lambda nvml, gpu: "{}.{}".format(
        *nvml.nvmlDeviceGetCudaComputeCapability(gpu)
    ),
    "mig": _mig,
    **_DRIVER,
    "max_sm_mhz": lambda nvml, gpu: nvml.nvmlDeviceGetMaxClockInfo(gpu, SM_CLOCK),
    "max_mem_mhz": lambda nvml, gpu: nvml.nvmlDeviceGetMaxClockInfo(gpu, MEMORY_CLOCK),
}
_CAP: dict[str, Question] = {
    "power_cap_w": lambda nvml, gpu: nvml.nvmlDeviceGetEnforcedPowerLimit(gpu) / 1000,
}
_CONTEXT: dict[str, Question] = {
    **_DRIVER,
    "vbios": lambda nvml, gpu: nvml.nvmlDeviceGetVbiosVersion(gpu),
    **_CAP,
    "default_power_cap_w": lambda nvml, gpu: (
        nvml.nvmlDeviceGetPowerManagementDefaultLimit(gpu) / 1000
    ),
    "ecc": lambda nvml, gpu: nvml.nvmlDeviceGetEccMode(gpu)[0] == 1,
    "mig": _mig,
}
_SAMPLE: dict[str, Question] = {
    "sm_mhz": lambda nvml, gpu: nvml.nvmlDeviceGetClockInfo(gpu, SM_CLOCK),
    "mem_mhz": lambda nvml, gpu: nvml.nvmlDeviceGetClockInfo(gpu, MEMORY_CLOCK),
    "power_w": lambda nvml, gpu: nvml.nvmlDeviceGetPowerUsage(gpu) / 1000,
    "temperature_c": lambda nvml, gpu: nvml.nvmlDeviceGetTemperature(gpu, GPU_TEMPERATURE),
    "throttle_reasons": _reasons,
    "utilisation": lambda nvml, gpu: nvml.nvmlDeviceGetUtilizationRates(gpu).gpu,
}
_SLOW: dict[str, Question] = {
    **_CAP,
    "energy_j": lambda nvml, gpu: nvml.nvmlDeviceGetTotalEnergyConsumption(gpu) / 1000,
    "free_bytes": lambda nvml, gpu: nvml.nvmlDeviceGetMemoryInfo(gpu).free,
    "other_processes": _processes,
}
