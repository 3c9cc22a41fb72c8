"""What an NVIDIA GPU is and how it feels: facts, context and conditions, through NVML.

A value that this GPU, driver or permission does not give is None, with the reason in `unknown`.
Not yet run on NVIDIA hardware: tested with a test double of the driver's library. On a Mac nothing
like NVML exists for programs without root, so there are no clocks and no power to be had.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from gemmgrid.measure.host.nvml import MEMORY_CLOCK, SM_CLOCK, Nvml, NvmlError

THROTTLING = frozenset(
    {"sw-power-cap", "hw-slowdown", "sw-thermal", "hw-thermal", "hw-power-brake"}
)
"""Reasons that hold clocks below what was asked for; idling and chosen clocks do not."""


@lru_cache(maxsize=1)
def connect() -> tuple[Nvml | None, str]:
    """NVML for the life of this process, or None and the reason. Loading it takes milliseconds."""
    try:
        return Nvml(), ""
    except NvmlError as error:
        return None, str(error)


def facts(nvml: Nvml) -> list[dict[str, Any]]:
    """What each GPU is: stable hardware facts and its driver."""
    try:
        return [_facts(nvml, nvml.device(index)) for index in range(nvml.count())]
    except NvmlError:
        return []


def _facts(nvml: Nvml, device: Any) -> dict[str, Any]:
    return _ask(
        {
            "name": lambda: nvml.name(device),
            "memory_bytes": lambda: nvml.memory_bytes(device)[0],
            "compute_capability": lambda: nvml.compute_capability(device),
            "mig": lambda: nvml.mig_names(device) if nvml.mig(device) else [],
            "driver": nvml.driver,
            "cuda": nvml.cuda_version,
            "max_sm_mhz": lambda: nvml.max_clock_mhz(device, SM_CLOCK),
            "max_mem_mhz": lambda: nvml.max_clock_mhz(device, MEMORY_CLOCK),
        },
        {"vendor": "NVIDIA"},
    )


def context(nvml: Nvml, index: int) -> dict[str, Any]:
    """What can be changed on GPU `index` and moves its speed: driver, firmware, caps, modes."""
    try:
        device = nvml.device(index)
    except NvmlError as error:
        return {"unknown": {"device": str(error)}}
    return _ask(
        {
            "driver": nvml.driver,
            "cuda": nvml.cuda_version,
            "vbios": lambda: nvml.vbios(device),
            "power_cap_w": lambda: nvml.power_cap_w(device),
            "default_power_cap_w": lambda: nvml.default_power_cap_w(device),
            "ecc": lambda: nvml.ecc(device),
            "mig": lambda: nvml.mig_names(device) if nvml.mig(device) else [],
        }
    )


def sample(nvml: Nvml, index: int) -> dict[str, Any]:
    """Clocks, power, temperature, clock reasons and load now: six driver calls, made for 5 Hz."""
    try:
        device = nvml.device(index)
    except NvmlError as error:
        return {"unknown": {"device": str(error)}}
    return _ask(
        {
            "sm_mhz": lambda: nvml.clock_mhz(device, SM_CLOCK),
            "mem_mhz": lambda: nvml.clock_mhz(device, MEMORY_CLOCK),
            "power_w": lambda: nvml.power_w(device),
            "temperature_c": lambda: nvml.temperature_c(device),
            "throttle_reasons": lambda: nvml.clock_reasons(device),
            "utilisation": lambda: nvml.utilisation(device),
        }
    )


def conditions(nvml: Nvml, index: int, own: frozenset[int] = frozenset()) -> dict[str, Any]:
    """A sample, and what changes slowly: power cap, energy counter, free memory, other users.

    own   process ids that are ours; all others on the GPU count as other_processes
    """
    found = sample(nvml, index)
    try:
        device = nvml.device(index)
    except NvmlError:
        return found
    slow = _ask(
        {
            "power_cap_w": lambda: nvml.power_cap_w(device),
            "energy_j": lambda: nvml.energy_j(device),
            "free_bytes": lambda: nvml.memory_bytes(device)[1],
            "other_processes": lambda: len(set(nvml.compute_processes(device)) - own),
        }
    )
    return {**found, **slow, "unknown": found["unknown"] | slow["unknown"]}


def visible_index(nvml: Nvml, variables: Mapping[str, str] = os.environ) -> int | None:
    """NVML's index of the GPU that CUDA calls device 0; None where CUDA_VISIBLE_DEVICES hides all.

    NVML counts in PCI order, as CUDA does under CUDA_DEVICE_ORDER=PCI_BUS_ID, which the measured
    environment sets.
    """
    wanted = variables.get("CUDA_VISIBLE_DEVICES")
    if wanted is None:
        return 0
    first = wanted.split(",")[0].strip()
    if first.isdigit():
        return int(first)
    try:
        for index in range(nvml.count()):
            if first.startswith("GPU-") and nvml.uuid(nvml.device(index)).startswith(first):
                return index
    except NvmlError:
        pass
    # A MIG instance is named by its own UUID; its parent is asked for, when there is but one.
    return 0 if first.startswith("MIG-") else None


def throttled(samples: list[Mapping[str, Any]]) -> bool:
    """Whether any sample names a reason that held clocks back."""
    return any(THROTTLING & set(one.get("throttle_reasons") or ()) for one in samples)


def _ask(
    questions: Mapping[str, Callable[[], Any]], known: dict[str, Any] | None = None
) -> dict[str, Any]:
    found: dict[str, Any] = dict(known or {})
    unknown: dict[str, str] = {}
    for key, question in questions.items():
        try:
            found[key] = question()
        except NvmlError as error:
            found[key] = None
            unknown[key] = str(error)
    found["unknown"] = unknown
    return found
