"""Sockets, cores, SMT, kinds of cores and caches, from /sys/devices/system/cpu."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from gemmgrid.system.files import cpu_list, entries, integer, text

CPU = "sys/devices/system/cpu"


def topology(root: Path, cpus: list[int], listing: str, unknown: dict[str, str]) -> dict[str, Any]:
    """Physical totals of the machine, whatever this process may use of them.

    sockets, cores (physical), logical (on line), smt (the hardware has it, switched on or not),
    threads_per_core (now), performance_cores, efficiency_cores
    """
    packages: set[int] = set()
    cores: dict[str, list[int]] = {}
    for cpu in cpus:
        folder = f"{CPU}/cpu{cpu}/topology"
        # core_cpus_list is the newer name of thread_siblings_list (Linux 5.3).
        siblings = text(root, f"{folder}/core_cpus_list") or text(
            root, f"{folder}/thread_siblings_list"
        )
        if siblings:
            cores.setdefault(siblings, []).append(cpu)
        package = integer(root, f"{folder}/physical_package_id")
        if package is not None and package >= 0:  # -1 where the firmware does not tell
            packages.add(package)
    sockets, physical = len(packages) or None, len(cores) or None
    if physical is None:
        sockets, physical = _from_cpuinfo(listing)
    threads = max((len(siblings) for siblings in cores.values()), default=None)
    if threads is None and physical and cpus:
        threads = max(1, len(cpus) // physical)
    fast, slow = _kinds(root, cores, physical)
    found = {
        "sockets": sockets,
        "cores": physical,
        "logical": len(cpus) or None,
        "smt": _smt(root, threads),
        "threads_per_core": threads,
        "performance_cores": fast,
        "efficiency_cores": slow,
    }
    for key, value in found.items():
        if value is None:
            unknown[f"cpu.{key}"] = f"neither /{CPU} nor /proc/cpuinfo tells it"
    return found


def caches(root: Path, cpus: list[int]) -> list[dict[str, Any]]:
    """Every kind of cache once: level, type, size of one, how many CPUs share one, how many."""
    kinds: Counter[tuple[int, str, int | None, int]] = Counter()
    seen: dict[str, set[int]] = {}
    for cpu in cpus:
        for index in entries(root, f"{CPU}/cpu{cpu}/cache"):
            # A cache that a CPU seen before shares is counted already: large machines have
            # thousands of these files.
            if not index.startswith("index") or cpu in seen.setdefault(index, set()):
                continue
            folder = f"{CPU}/cpu{cpu}/cache/{index}"
            sharers = cpu_list(text(root, f"{folder}/shared_cpu_list")) or [cpu]
            seen[index].update(sharers)
            level = integer(root, f"{folder}/level")
            if level is not None:
                kind = (text(root, f"{folder}/type") or "unknown").lower()
                kinds[level, kind, _size(text(root, f"{folder}/size")), len(sharers)] += 1
    return [
        {"level": level, "type": kind, "size_bytes": size, "shared_by": shared, "count": count}
        for (level, kind, size, shared), count in sorted(kinds.items(), key=str)
    ]


def _size(content: str | None) -> int | None:
    """Bytes of "32K", "1024K" or "32M"."""
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    digits = (content or "").rstrip("KMG")
    if not digits.isdigit():
        return None
    return int(digits) * units.get((content or "")[len(digits) :], 1)


def _smt(root: Path, threads: int | None) -> bool | None:
    control = text(root, f"{CPU}/smt/control")
    # "off" and "forceoff": the cores have it, someone switched it off.
    if control in ("on", "off", "forceoff"):
        return True
    return None if threads is None else threads > 1


def _kinds(
    root: Path, cores: dict[str, list[int]], physical: int | None
) -> tuple[int | None, int | None]:
    """Numbers of fast and slow cores; all are fast where there is one kind."""
    fast = set(cpu_list(text(root, "sys/devices/cpu_core/cpus")))
    slow = set(cpu_list(text(root, "sys/devices/cpu_atom/cpus")))
    if not (fast and slow):  # not an Intel hybrid; Arm tells a capacity, 1024 for the fastest
        capacity = {
            cpu: integer(root, f"{CPU}/cpu{cpu}/cpu_capacity")
            for siblings in cores.values()
            for cpu in siblings
        }
        known = [value for value in capacity.values() if value is not None]
        if not known or min(known) == max(known):
            return physical, 0 if physical else None
        slow = {cpu for cpu, value in capacity.items() if value is not None and value < max(known)}
    slow_cores = sum(1 for siblings in cores.values() if siblings[0] in slow)
    return len(cores) - slow_cores, slow_cores


def _from_cpuinfo(listing: str) -> tuple[int | None, int | None]:
    """Sockets and cores from "physical id" and "core id", where /sys is not to be had."""
    pairs: set[tuple[str, str]] = set()
    package = ""
    for line in listing.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "physical id":
            package = value.strip()
        elif key.strip() == "core id":
            pairs.add((package, value.strip()))
    return (len({socket for socket, _ in pairs}) or None, len(pairs) or None)
