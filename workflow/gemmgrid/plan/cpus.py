"""How many CPUs this process may use, and how many physical cores there are.

Read from files and system calls only, because the plan is made at every parse.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterable
from pathlib import Path

TOPOLOGY = Path("/sys/devices/system/cpu")
CGROUP = Path("/sys/fs/cgroup")
SELF_CGROUP = Path("/proc/self/cgroup")


def usable() -> int:
    """CPUs this process may use: its affinity, and its CPU quota rounded down; at least 1."""
    return max(1, min(len(affinity()), quota() or sys.maxsize))


def usable_cores() -> int:
    """Distinct physical cores among the CPUs this process may use, within its quota; at least 1."""
    if sys.platform == "darwin":
        cores = sysctl_number("hw.physicalcpu") or len(affinity())
    else:
        cores = cores_among(affinity())
    return max(1, min(cores, quota() or sys.maxsize))


def machine_cores() -> int:
    """Physical cores of the whole machine, whatever this process may use of them."""
    if sys.platform == "darwin":
        return sysctl_number("hw.physicalcpu") or os.cpu_count() or 1
    return cores_among(_online())


def affinity() -> set[int]:
    """Numbers of the CPUs that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return set(os.sched_getaffinity(0))
    return set(range(os.cpu_count() or 1))


def cores_among(cpus: Iterable[int], topology: Path = TOPOLOGY) -> int:
    """Distinct (package, core) pairs among these CPUs; the CPUs themselves where unknown."""
    cores = set()
    for cpu in cpus:
        folder = topology / f"cpu{cpu}" / "topology"
        try:
            package = (folder / "physical_package_id").read_text(encoding="utf-8").strip()
            core = (folder / "core_id").read_text(encoding="utf-8").strip()
            # A core's number may repeat in each die of a package.
            die = (
                (folder / "die_id").read_text(encoding="utf-8").strip()
                if (folder / "die_id").exists()
                else ""
            )
        except OSError:
            return len(set(cpus))
        cores.add((package, die, core))
    return len(cores)


def quota(cgroup: Path = CGROUP, own: Path = SELF_CGROUP) -> int | None:
    """Whole CPUs that the cgroups' CPU quota allows, at least 1; None without a quota."""
    limits = [
        limit
        for folder in _cgroup_folders(cgroup, own)
        if (limit := _folder_quota(folder)) is not None
    ]
    return max(1, int(min(limits))) if limits else None


def sysctl_number(name: str) -> int | None:
    """A number from macOS' sysctl, read by its C function; None where there is none."""
    raw = _sysctl(name)
    return int.from_bytes(raw, sys.byteorder) if raw and len(raw) in (4, 8) else None


def sysctl_text(name: str) -> str | None:
    """A text from macOS' sysctl, read by its C function; None where there is none."""
    raw = _sysctl(name)
    return raw.rstrip(b"\0").decode(errors="replace") if raw else None


def _sysctl(name: str) -> bytes | None:
    try:
        call = ctypes.CDLL(None).sysctlbyname
    except (OSError, AttributeError):
        return None
    size = ctypes.c_size_t(256)
    buffer = ctypes.create_string_buffer(size.value)
    if call(name.encode(), buffer, ctypes.byref(size), None, ctypes.c_size_t(0)) != 0:
        return None
    return buffer.raw[: size.value]


def _online() -> list[int]:
    try:
        return parse_cpu_list((TOPOLOGY / "online").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return list(range(os.cpu_count() or 1))


def parse_cpu_list(text: str) -> list[int]:
    """`0-3,8` as [0, 1, 2, 3, 8]."""
    cpus: list[int] = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        cpus += range(int(first), int(last or first) + 1)
    return cpus


def _cgroup_folders(cgroup: Path, own: Path) -> list[Path]:
    """This process's folders in cgroup v2 and in v1's cpu controller, up to their roots."""
    try:
        lines = own.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    folders = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        names = controllers.split(",")
        if controllers == "":
            base = cgroup
        elif "cpu" in names:
            base = cgroup / controllers if (cgroup / controllers).is_dir() else cgroup / "cpu"
        else:
            continue
        below = Path(path.lstrip("/"))
        folders += [base / below, *(base / parent for parent in below.parents)]
    return folders


def _folder_quota(folder: Path) -> float | None:
    """CPUs of time per time that one cgroup folder allows, fractions included."""
    try:
        limit, period = (folder / "cpu.max").read_text(encoding="utf-8").split()
        return None if limit == "max" else int(limit) / int(period)
    except (OSError, ValueError):
        pass
    try:
        limit_us = int((folder / "cpu.cfs_quota_us").read_text(encoding="utf-8"))
        period_us = int((folder / "cpu.cfs_period_us").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return limit_us / period_us if limit_us > 0 else None
