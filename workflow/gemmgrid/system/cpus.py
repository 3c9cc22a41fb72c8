"""How many CPUs this process may use, and how many physical cores there are.

Read from files and system calls only, because the plan is made at every parse.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from gemmgrid.system import cgroup, macos
from gemmgrid.system.files import ROOT, integer, online_cpus


def usable() -> int:
    """CPUs this process may use: its affinity, and its CPU quota rounded down; at least 1."""
    return max(1, min(len(allowed()), quota() or sys.maxsize))


def usable_cores() -> int:
    """Distinct physical cores among the CPUs this process may use, within its quota; at least 1."""
    if macos.is_darwin():
        cores = macos.sysctl_int("hw.physicalcpu") or len(allowed())
    else:
        cores = cores_among(allowed())
    return max(1, min(cores, quota() or sys.maxsize))


def machine_cores() -> int:
    """Physical cores of the whole machine, whatever this process may use of them."""
    if macos.is_darwin():
        return macos.sysctl_int("hw.physicalcpu") or os.cpu_count() or 1
    return cores_among(online_cpus(ROOT) or range(os.cpu_count() or 1))


def affinity() -> list[int] | None:
    """CPUs that this process may run on, None where the system does not tell (macOS)."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return None


def allowed(root: Path = ROOT) -> list[int]:
    """The same; of a recorded tree, and where the system does not tell, all that are on line."""
    own = affinity() if root == ROOT else None
    return own or online_cpus(root) or (list(range(os.cpu_count() or 1)) if root == ROOT else [])


def cores_among(cpus: Iterable[int], root: Path = ROOT) -> int:
    """Distinct (package, die, core) among these CPUs; the CPUs themselves where unknown.

    A core's number may repeat in each die of a package.
    """
    cores = set()
    for cpu in (numbers := list(cpus)):
        folder = f"sys/devices/system/cpu/cpu{cpu}/topology"
        place = [integer(root, f"{folder}/{name}") for name in ("physical_package_id", "core_id")]
        if None in place:
            return len(set(numbers))
        cores.add((*place, integer(root, f"{folder}/die_id")))
    return len(cores)


def quota() -> int | None:
    """Whole CPUs that the control groups' CPU quota allows, at least 1; None without a quota."""
    limit = cgroup.cpu_quota()
    return None if limit is None else max(1, int(limit))
