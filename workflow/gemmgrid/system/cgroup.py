"""What the control groups of this process allow: CPU time, memory, and what they did to it.

Both versions of cgroups are read, in containers too, over all levels from the process's group up to
the top: the smallest allowance counts. Where a controller is missing, its values are None. By hand:
psutil reads no control groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gemmgrid.system import macos
from gemmgrid.system.files import ROOT, meminfo, text

NO_LIMIT_BYTES = 1 << 60
"""cgroup v1 writes "no limit" as the largest number of whole pages, near 2^63."""


@dataclass(frozen=True)
class Limits:
    """Allowances and counters of the groups; None where there is none or it cannot be read.

    cpus                     CPUs' worth of time (quota over period), such as 1.5
    memory_bytes             limit of the tightest level
    memory_available_bytes   what is left below the limits, counting page cache as free
    periods, throttled_periods, throttled_s   of the CPU quota, since the group was made
    oom_kills                processes of the group that the kernel killed for memory
    """

    cpus: float | None = None
    memory_bytes: int | None = None
    memory_available_bytes: int | None = None
    periods: int | None = None
    throttled_periods: int | None = None
    throttled_s: float | None = None
    oom_kills: int | None = None


def read(root: Path = ROOT) -> Limits:
    """The limits of this process (of the recorded one, under another root). Never raises."""
    groups = _memberships(root)
    cpu = list(_levels(root, groups, "cpu"))
    memory = list(_levels(root, groups, "memory"))
    rooms = [room for level in memory if (room := _room(root, level)) is not None]
    # The counters of the innermost level that has them: outer levels count other groups too.
    statistics = next(
        (found for level in cpu if "nr_periods" in (found := _table(root, f"{level}/cpu.stat"))), {}
    )
    nanoseconds = statistics.get("throttled_time")
    microseconds = statistics.get("throttled_usec")
    return Limits(
        cpus=_least_quota(root, cpu),
        memory_bytes=min((limit for limit, _ in rooms), default=None),
        memory_available_bytes=min((left for _, left in rooms), default=None),
        periods=statistics.get("nr_periods"),
        throttled_periods=statistics.get("nr_throttled"),
        throttled_s=(
            microseconds / 1e6
            if microseconds is not None
            else (nanoseconds / 1e9 if nanoseconds is not None else None)
        ),
        oom_kills=_oom_kills(root, memory),
    )


def cpu_quota(root: Path = ROOT) -> float | None:
    """CPUs' worth of time that the groups of this process allow; None without a quota."""
    return _least_quota(root, _levels(root, _memberships(root), "cpu"))


def available_bytes(root: Path = ROOT) -> int | None:
    """Memory that a new process can have now: the machine's and the group's, whichever is less."""
    if macos.is_darwin() and root == ROOT:
        return macos.free_bytes()
    machine = meminfo(root).get("MemAvailable")
    group = read(root).memory_available_bytes
    known = [value for value in (machine, group, _address_space(root)) if value is not None]
    return min(known, default=None)


def oom_kills(root: Path = ROOT) -> int | None:
    """Counter of the kernel's kills for memory: a child that died by SIGKILL while it rose is oom.

    The group's own counter, or else the machine's, which also counts other people's processes.
    """
    own = read(root).oom_kills
    return own if own is not None else _table(root, "proc/vmstat").get("oom_kill")


def _address_space(root: Path) -> int | None:
    """`ulimit -v`, by which some batch systems limit memory."""
    if root != ROOT:
        return None
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if soft == resource.RLIM_INFINITY else soft


def _memberships(root: Path) -> dict[str, str]:
    """Controller → path of this process's group; version 2 stands under ""."""
    found: dict[str, str] = {}
    for line in (text(root, "proc/self/cgroup") or "").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        for controller in controllers.split(","):
            found[controller] = path
    return found


def _levels(root: Path, groups: dict[str, str], controller: str) -> Iterator[str]:
    """Folders of the process's group and its parents, innermost first.

    In a container the mount may show only a part of the tree: then the field `root` of mountinfo is
    where it begins, and the group's path counts from there.
    """
    for line in (text(root, "proc/self/mountinfo") or "").splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if len(fields) < 5 or len(kind) < 3:
            continue
        if kind[0] == "cgroup" and controller in kind[2].split(","):
            path = groups.get(controller)
        elif kind[0] == "cgroup2" and controller not in groups:
            path = groups.get("")
        else:
            continue
        if path is None:
            continue
        start, mount = fields[3], fields[4]
        if start != "/":
            path = path.removeprefix(start) if path.startswith(start) else "/"
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for depth in range(len(parts), -1, -1):
            yield "/".join([mount.rstrip("/"), *parts[:depth]])
        return


def _least_quota(root: Path, levels: Iterable[str]) -> float | None:
    quotas = (_quota(root, level) for level in levels)
    return min((quota for quota in quotas if quota is not None), default=None)


def _quota(root: Path, level: str) -> float | None:
    both = (text(root, f"{level}/cpu.max") or "").split()
    if not both:
        quota = text(root, f"{level}/cpu.cfs_quota_us")
        both = [quota or "max", text(root, f"{level}/cpu.cfs_period_us") or "100000"]
    try:
        quota_us, period_us = int(both[0]), int(both[1])
    except (ValueError, IndexError):  # "max"
        return None
    return quota_us / period_us if quota_us > 0 and period_us > 0 else None


def _room(root: Path, level: str) -> tuple[int, int] | None:
    """Limit and what is left below it; None without a limit."""
    limits = []
    for name in ("memory.max", "memory.high", "memory.limit_in_bytes"):
        content = text(root, f"{level}/{name}") or ""
        if content.isdigit() and int(content) < NO_LIMIT_BYTES:
            limits.append(int(content))
    if not limits:
        return None
    limit = min(limits)
    used = 0
    for name in ("memory.current", "memory.usage_in_bytes"):
        content = text(root, f"{level}/{name}") or ""
        if content.isdigit():
            used = int(content)
            break
    statistics = _table(root, f"{level}/memory.stat")
    # The kernel drops page cache before it kills, so cache is room; tmpfs is not among these.
    prefix = "total_" if "total_inactive_file" in statistics else ""
    cache = statistics.get(f"{prefix}inactive_file", 0) + statistics.get(f"{prefix}active_file", 0)
    return limit, max(0, limit - max(0, used - cache))


def _oom_kills(root: Path, memory: list[str]) -> int | None:
    for level in memory:
        for name in ("memory.events", "memory.oom_control"):
            count = _table(root, f"{level}/{name}").get("oom_kill")
            if count is not None:
                return count
    return None


def _table(root: Path, path: str) -> dict[str, int]:
    """A file of lines "name number"."""
    found: dict[str, int] = {}
    for line in (text(root, path) or "").splitlines():
        key, _, value = line.partition(" ")
        if value.strip().isdigit():
            found[key] = int(value)
    return found
