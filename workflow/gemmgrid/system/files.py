"""Read the small text files under /proc and /sys without ever raising.

Every function takes `root`, the directory that stands for `/`, so that recorded trees of other
machines can be read in tests. A file that is missing, unreadable or odd is None: on someone's
kernel, container or permission set each of them is.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path("/")


def text(root: Path, path: str) -> str | None:
    """Content of `root/path`, stripped, or None where it cannot be read."""
    try:
        # Bytes first: /proc may hold anything, and a bad byte must not cost the whole file.
        return (root / path.lstrip("/")).read_bytes().decode("utf-8", "replace").strip()
    except (OSError, ValueError):
        return None


def integer(root: Path, path: str) -> int | None:
    """Content of `root/path` as an integer (decimal, or 0x…), or None."""
    content = text(root, path)
    if content is None:
        return None
    try:
        return int(content, 0)
    except ValueError:
        return None


def entries(root: Path, path: str) -> list[str]:
    """Names in the directory `root/path`, sorted; empty where it cannot be listed."""
    try:
        return sorted(entry.name for entry in (root / path.lstrip("/")).iterdir())
    except OSError:
        return []


def cpu_list(content: str | None) -> list[int]:
    """CPU numbers of a kernel list such as "0-3,8,10-11"; empty where it cannot be read."""
    numbers: list[int] = []
    for part in (content or "").replace("\n", ",").split(","):
        first, _, last = part.strip().partition("-")
        try:
            numbers.extend(range(int(first), int(last or first) + 1))
        except ValueError:
            continue
    return numbers


def online_cpus(root: Path) -> list[int]:
    """Logical CPUs that are on line, from /sys or else from /proc/cpuinfo; empty if neither."""
    cpus = cpu_list(text(root, "sys/devices/system/cpu/online"))
    if cpus:
        return cpus
    lines = (text(root, "proc/cpuinfo") or "").splitlines()
    found = [line.partition(":")[2].strip() for line in lines if line.startswith("processor")]
    return [int(number) for number in found if number.isdigit()]


def meminfo(root: Path = ROOT) -> dict[str, int]:
    """/proc/meminfo in bytes; empty where there is none."""
    lines = re.findall(r"^(\w+):\s+(\d+) kB$", text(root, "proc/meminfo") or "", re.MULTILINE)
    return {key: int(value) * 1024 for key, value in lines}


def chosen(content: str | None) -> str | None:
    """The bracketed word of a choice file: "always [madvise] never" gives "madvise"."""
    if content is None or "[" not in content:
        return None
    return content.partition("[")[2].partition("]")[0] or None
