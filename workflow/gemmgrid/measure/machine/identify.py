"""Which kind of machine this is: two short hashes over stable hardware facts.

Identical nodes share them. An update of the kernel, a driver or the firmware, a switched-off SMT
or a container's limits leave them as they are: those are context (`machine.context`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gemmgrid.records.context import digest

GIB = 1 << 30


def identity(facts: Mapping[str, Any]) -> dict[str, Any]:
    """{"host_id", "host", "gpu_ids"}: the host's hash, what was hashed, and a hash for each GPU."""
    host = host_facts(facts)
    gpu_ids = [digest(gpu_facts(one)) for one in facts.get("gpus") or []]
    return {"host_id": digest(host), "host": host, "gpu_ids": gpu_ids}


def host_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What tells one kind of host from another."""
    cpu = facts.get("cpu") or {}
    keys = ("vendor", "model", "family", "model_number", "stepping", "sockets", "cores")
    virtualisation = facts.get("virtualisation")
    return {
        "architecture": facts.get("architecture"),
        **{key: cpu.get(key) for key in keys},
        "performance_cores": cpu.get("performance_cores"),
        "efficiency_cores": cpu.get("efficiency_cores"),
        "smt": cpu.get("smt"),
        "numa": facts.get("numa"),
        "isa": cpu.get("isa"),
        "memory_gib": rounded_gib(facts.get("memory_bytes")),
        "virtualised": None if virtualisation is None else virtualisation != "none",
    }


def gpu_facts(gpu: Mapping[str, Any]) -> dict[str, Any]:
    """What tells one kind of GPU from another; the driver is context."""
    return {
        "name": gpu.get("name"),
        "cores": gpu.get("cores"),
        "memory_gib": rounded_gib(gpu.get("memory_bytes")),
        "compute_capability": gpu.get("compute_capability"),
        "mig": gpu.get("mig"),
    }


def rounded_gib(size: int | None) -> float | None:
    """Memory as it was sold, in GiB: up to the next step of an eighth of its power of two.

    The kernel keeps one to three percent for itself, and not the same share in every version: 125.4
    and 125.6 GiB are both 128, and 94 GiB is 96.
    """
    if not size:
        return None
    gib = size / GIB
    step = 2.0 ** (math.floor(math.log2(gib)) - 3)
    return math.ceil(gib / step) * step
