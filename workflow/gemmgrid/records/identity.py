"""Which kind of machine it is: short hashes over stable hardware facts.

Identical nodes share them. An update of the kernel, a driver or the firmware, a switched-off SMT, a
container's limits or the GPUs that a job was given leave them as they are: those are context
(`measure.machine.context`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gemmgrid.records.context import digest

GIB = 1 << 30
LATER = ("last_level_caches", "cards")
"""Facts that the hash leaves out, so that older records keep theirs: compared one by one."""


def identity(facts: Mapping[str, Any]) -> dict[str, Any]:
    """{"host_id", "host", "gpu_ids"}: the host's hash, what tells it, and a hash for each GPU.

    `host` holds what was hashed, and what is compared beside the hash (`LATER`).
    """
    host = host_facts(facts)
    gpu_ids = [digest(gpu_facts(one)) for one in facts.get("gpus") or []]
    later = {"last_level_caches": _last_level(facts), "cards": facts.get("cards")}
    return {"host_id": digest(host), "host": {**host, **later}, "gpu_ids": gpu_ids}


def is_same(
    host: Mapping[str, Any], gpu: Mapping[str, Any] | None, facts: Mapping[str, Any]
) -> bool:
    """Whether a run's `host` and `gpu` are of the kind of machine that machine.json's facts tell.

    A fact of `LATER`, or a GPU, that one of the two does not know is not compared.
    """
    there = identity(facts)
    told = [(host.get(key), there["host"][key]) for key in LATER]
    used = gpu.get("id") if gpu else None
    return (
        host.get("id") == there["host_id"]
        and all(one == other for one, other in told if one is not None and other is not None)
        and (not used or not there["gpu_ids"] or used in there["gpu_ids"])
    )


def _last_level(facts: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Size and number of the caches of the highest level; how many CPUs share one is SMT's."""
    caches = (facts.get("cpu") or {}).get("caches") or []
    last = max((one["level"] for one in caches), default=None)
    kept = ("level", "size_bytes", "count")
    return [{key: one[key] for key in kept} for one in caches if one["level"] == last] or None


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
