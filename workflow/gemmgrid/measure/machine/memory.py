"""How much memory the machine has, and in how many NUMA nodes."""

from __future__ import annotations

import re
from pathlib import Path

from gemmgrid.measure.host import darwin
from gemmgrid.measure.host.sysfiles import ROOT, cpu_list, text


def physical_bytes(root: Path, unknown: dict[str, str]) -> int | None:
    """Memory that the kernel manages: what is installed, less one to three percent it keeps."""
    if darwin.is_darwin() and root == ROOT:
        size = darwin.sysctl_int("hw.memsize")
    else:
        size = meminfo(root).get("MemTotal")
    if size is None:
        unknown["memory_bytes"] = "neither /proc/meminfo nor sysctl hw.memsize tells it"
    return size


def meminfo(root: Path = ROOT) -> dict[str, int]:
    """/proc/meminfo in bytes; empty where there is none."""
    lines = re.findall(r"^(\w+):\s+(\d+) kB$", text(root, "proc/meminfo") or "", re.MULTILINE)
    return {key: int(value) * 1024 for key, value in lines}


def numa_nodes(root: Path, unknown: dict[str, str]) -> int | None:
    """Number of NUMA nodes that hold memory."""
    if darwin.is_darwin() and root == ROOT:
        return 1  # every Mac that runs this has uniform memory
    for name in ("has_memory", "online"):
        nodes = cpu_list(text(root, f"sys/devices/system/node/{name}"))
        if nodes:
            return len(nodes)
    unknown["numa"] = "the kernel describes no nodes under /sys/devices/system/node"
    return None
