"""What can change on a machine and move its numbers, without its being another machine.

Two contexts, of the host and of the device, so that a job with a GPU and one without agree about
the node they share. Load, temperature, free memory and the size of a job are not context.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gemmgrid.measure.host import cpufreq, gpu
from gemmgrid.measure.machine import cpu, system
from gemmgrid.system import cgroup, macos
from gemmgrid.system.files import ROOT, entries, online_cpus, text

_REASONS = {
    "os": "/etc/os-release does not tell it",
    "kernel": "the kernel does not tell it",
    "libc": "neither the C library nor the interpreter tells it",
    "microcode": "/proc/cpuinfo does not tell it",
    "clock_driver": "the kernel offers no cpufreq here",
    "energy_preference": "the clock driver has none",
    **cpufreq.SETTINGS_UNKNOWN,
    "mitigations": "the kernel does not tell it",
}


def host_context(root: Path = ROOT) -> dict[str, Any]:
    """Context of the host: kernel, microcode, libc, clocks' policy, mitigations, container."""
    cpus = cpufreq.some(online_cpus(root))
    listing = text(root, "proc/cpuinfo") or ""
    microcode = next(
        (line.partition(":")[2].strip() for line in listing.splitlines() if "microcode" in line),
        None,
    )
    context: dict[str, Any] = {
        "os": system.operating_system(root),
        "kernel": system.kernel(root),
        "libc": system.libc(),
        "microcode": microcode,
        "clock_driver": cpu.clocks(root, listing)["clock_driver"],
        "energy_preference": cpufreq.energy_preference(root, cpus),
        **cpufreq.settings(root, cpus),
        "mitigations": mitigations(root),
        "container": system.container(root),
        # A quota holds threads back. The memory and the CPUs of a job do not belong here: two jobs
        # of different size on one node must agree.
        "cpu_quota": cgroup.read(root).cpus,
    }
    context["unknown"] = {
        key: reason for key, reason in _REASONS.items() if context.get(key) is None
    }
    return context


def mitigations(root: Path = ROOT) -> dict[str, str] | None:
    """What the kernel does about each hardware vulnerability that this CPU has."""
    folder = "sys/devices/system/cpu/vulnerabilities"
    found = {name: text(root, f"{folder}/{name}") for name in entries(root, folder)}
    if not found:
        return None
    return {name: state for name, state in found.items() if state and state != "Not affected"}


def device_context(device: str, variables: Mapping[str, str] = os.environ) -> dict[str, Any] | None:
    """Context of the GPU that a process with these variables uses; None for "cpu"."""
    if device == "cpu":
        return None
    if macos.is_darwin():
        # The GPU's driver and Metal are parts of macOS: its build names them.
        build = macos.sysctl_text("kern.osversion")
        reason = {} if build else {"macos_build": "sysctl kern.osversion does not tell it"}
        return {
            "macos": platform.mac_ver()[0] or None,
            "macos_build": build,
            "unknown": reason,
        }
    card, why = gpu.used(device, variables)
    return card.context() if card else {"driver": None, "unknown": {"driver": why}}
