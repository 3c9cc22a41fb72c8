"""The state of the machine at one moment, and what two moments say about the time between them.

Everything is read, nothing is set, nothing needs root. One reading costs well under 5 ms without a
GPU. What cannot be known is None, with a reason in `unknown`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gemmgrid.measure.host import cpufreq, gpu, job
from gemmgrid.records.run import now
from gemmgrid.system import cgroup, cpus, macos
from gemmgrid.system.files import ROOT, online_cpus, text

LOADED_CPUS = 0.1
LOADED_SHARE = 0.02
"""Others' use above which a run is "loaded": a tenth of a CPU, or a fiftieth of a large machine.
A quiet desktop's background takes about 0.02; a tenth of a CPU is what moved results visibly."""
STEAL_SHARE = 0.01
"""Steal above which a run is flagged: one percent lost is one percent slower."""
QUOTA_SHARE = 0.01
"""Share of the time that the CPU quota may hold the group back before it is flagged."""
LEAST_TICKS = 5
"""Kernel clock ticks (10 ms each) below which a counter's growth is rounding."""

_REASONS = {
    "load_1m": "the system tells no load average",
    "steal": "known only between two readings on Linux",
    "others_cpus": "known only between two readings on Linux",
    **cpufreq.SETTINGS_UNKNOWN,
    "temperature_c": "no CPU sensor is readable here",
    "power_source": "no power supply is described, as on most servers",
    "free_bytes": "neither the machine nor a control group tells it",
    "throttle_events": "the kernel counts them on Intel CPUs only",
    "quota_cpus": "no CPU quota is set, or no control group can be read",
    "quota_throttled_s": "no CPU quota is set, or no control group can be read",
    "shared_node": "not in a SLURM job",
}


def read(
    device: str,
    previous: Mapping[str, Any] | None = None,
    root: Path = ROOT,
    variables: Mapping[str, str] = os.environ,
) -> dict[str, Any]:
    """The conditions now. Never raises.

    device      "cpu", "cuda", "mps" or "gpu": for "cuda", and "gpu" on Linux, the GPU is read
    previous    an earlier reading of the same process: `steal` and `others_cpus` then describe the
                time since; without one they are None
    variables   of the measured process: they choose the GPU

    steal             share of the CPU time wanted since `previous` that the hypervisor took
    others_cpus       CPUs that processes other than this one and its finished children used since
    cpu_mhz           of at most 16 CPUs, spread over those this process may use
    throttle_events   a sum of counters, of which only the growth means something
    """
    unknown: dict[str, str] = {}
    on_mac = macos.is_darwin() and root == ROOT
    own = cpus.allowed(root)
    looked_at = cpufreq.some(own)
    mhz, no_mhz = cpufreq.clock_mhz(root, looked_at)
    if no_mhz:
        unknown["cpu_mhz"] = no_mhz
    limits = cgroup.read(root)
    counters = _counters(root)
    steal, others = _since(previous, counters)
    found: dict[str, Any] = {
        "at": now(),
        "load_1m": _load(root),
        "steal": steal,
        "others_cpus": others,
        "cpu_mhz": mhz,
        **cpufreq.settings(root, looked_at),
        "temperature_c": cpufreq.temperature_c(root),
        "power_source": macos.power_source() if on_mac else cpufreq.power_source(root),
        "free_bytes": cgroup.available_bytes(root),
        "throttle_events": cpufreq.throttle_events(root, looked_at),
        "quota_cpus": limits.cpus,
        "quota_throttled_s": limits.throttled_s,
        "allowed_cpus": len(own) or None,
        "shared_node": _shared_node(root, own),
        "gpu": None,
        "counters": counters,
        "unknown": unknown,
    }
    for key, reason in _REASONS.items():
        if found[key] is None:
            unknown[key] = reason
    if device == "cuda" or (device == "gpu" and not on_mac):
        card, unknown["gpu"] = gpu.used(device, variables)
        if card:
            found["gpu"] = card.conditions()
            del unknown["gpu"]
    elif device in ("mps", "gpu"):
        unknown["gpu"] = "macOS shows a GPU's clocks, power and load to root only"
    return found


def judge(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Flags for what happened between two readings of one process; empty for a quiet time.

    Of: throttled, loaded, steal, battery, quota, shared-node.
    """
    flags = []
    old, new = before.get("counters") or {}, after.get("counters") or {}
    gpus = [one.get("gpu") or {} for one in (before, after)]
    if _growth(before, after, "throttle_events") > 0 or gpu.throttled(gpus):
        flags.append("throttled")
    steal, others = _since(before, new)
    threshold = max(LOADED_CPUS, LOADED_SHARE * (new.get("cpus") or 0))
    crowded = any(one.get("other_processes") for one in gpus)
    if crowded or (others is not None and others > threshold):
        flags.append("loaded")
    stolen = (new.get("steal_s") or 0.0) - (old.get("steal_s") or 0.0)
    if steal is not None and steal > STEAL_SHARE and stolen >= LEAST_TICKS * _tick():
        flags.append("steal")
    if "battery" in (before.get("power_source"), after.get("power_source")):
        flags.append("battery")
    seconds = (new.get("monotonic_s") or 0.0) - (old.get("monotonic_s") or 0.0)
    if _growth(before, after, "quota_throttled_s") > QUOTA_SHARE * seconds:
        flags.append("quota")
    if before.get("shared_node") or after.get("shared_node"):
        flags.append("shared-node")
    return flags


def _load(root: Path) -> float | None:
    try:
        if root != ROOT:
            return float((text(root, "proc/loadavg") or "").split()[0])
        return round(os.getloadavg()[0], 2)
    except (OSError, ValueError, IndexError):
        return None


def _tick() -> float:
    try:
        return 1.0 / os.sysconf("SC_CLK_TCK")
    except (ValueError, OSError):
        return 0.01


def _counters(root: Path) -> dict[str, float | int | None]:
    """CPU seconds of the whole machine and of this process, to be subtracted later.

    own_s counts finished children from the moment they are waited for: read after that.
    """
    own = os.times()
    found: dict[str, float | int | None] = {
        "monotonic_s": time.monotonic(),
        "own_s": own.user + own.system + own.children_user + own.children_system,
        "busy_s": None,
        "steal_s": None,
        "cpus": len(online_cpus(root)) or os.cpu_count(),
    }
    first = (text(root, "proc/stat") or "").partition("\n")[0].split()
    if first[:1] == ["cpu"] and len(first) >= 9:
        # user nice system idle iowait irq softirq steal; guest time is inside user already
        user, nice, system, _, _, irq, softirq, steal = (int(field) for field in first[1:9])
        found["busy_s"] = (user + nice + system + irq + softirq) * _tick()
        found["steal_s"] = steal * _tick()
    return found


def _since(
    previous: Mapping[str, Any] | None, current: Mapping[str, Any]
) -> tuple[float | None, float | None]:
    """Steal share and others' CPUs between a reading and the counters now."""
    old = (previous or {}).get("counters") or {}
    keys = ("monotonic_s", "own_s", "busy_s", "steal_s")
    if any(old.get(key) is None or current.get(key) is None for key in keys):
        return None, None
    seconds, own, busy, stolen = (current[key] - old[key] for key in keys)
    if seconds <= 0:
        return None, None
    wanted = busy + stolen
    steal = max(0.0, stolen) / wanted if wanted > 0 else 0.0
    # Both sides are rounded to ticks, so a small difference is nothing.
    others = busy - own if busy - own > LEAST_TICKS * _tick() else 0.0
    return round(steal, 4), round(others / seconds, 3)


def _growth(before: Mapping[str, Any], after: Mapping[str, Any], key: str) -> float:
    old, new = before.get(key), after.get(key)
    return 0.0 if old is None or new is None else float(new - old)


def _shared_node(root: Path, cpus: list[int]) -> bool | None:
    """Whether others' jobs may run beside ours: a SLURM job that has not all of the node's CPUs."""
    if job.job_id() is None:
        return None
    return len(cpus) < len(online_cpus(root))
