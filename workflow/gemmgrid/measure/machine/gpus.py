"""The GPUs of this machine: NVIDIA's through NVML, Apple's through system_profiler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gemmgrid.measure.host import gpu
from gemmgrid.system import macos
from gemmgrid.system.files import ROOT, entries, text
from gemmgrid.system.macos import Command

VENDORS = {"0x10de": "NVIDIA", "0x1002": "AMD", "0x8086": "Intel"}
DISPLAY = "0x03"  # PCI class of display controllers, 3D controllers among them


def facts(root: Path, unknown: dict[str, str]) -> list[dict[str, Any]]:
    """One entry a GPU, without serial number or UUID; a card that only PCI shows is named so."""
    if root == ROOT:
        if macos.is_darwin():
            return apple_gpus(unknown)
        nvml, reason = gpu.connect()
        if nvml is not None:
            return gpu.facts(nvml)
    else:
        reason = "not this machine"
    makers = {VENDORS[card.partition(":")[0]] for card in cards(root, {}) or []}
    if makers:
        unknown["gpus"] = (
            f"the PCI bus has display devices of {', '.join(sorted(makers))}, "
            f"but they cannot be asked: {reason}"
        )
    return []


def cards(
    root: Path, unknown: dict[str, str], seen: Sequence[Mapping[str, Any]] = ()
) -> list[str] | None:
    """The GPUs that are built in, each as `vendor:model` of the PCI bus, whoever may use them.

    A job sees only the GPUs that it was given, and the bus shows it all. Virtual functions, which a
    driver makes and takes away, do not count. A Mac's are those `seen`.
    """
    if macos.is_darwin() and root == ROOT:
        return [f"{one['vendor']}:{one['name']} ({one['cores']} cores)" for one in seen]
    folder = "sys/bus/pci/devices"
    devices = entries(root, folder)
    if not devices:
        unknown["cards"] = f"no PCI bus is to be seen under /{folder}"
        return None
    found = []
    for name in devices:
        vendor = text(root, f"{folder}/{name}/vendor")
        kind = text(root, f"{folder}/{name}/class") or ""
        virtual = "physfn" in entries(root, f"{folder}/{name}")
        if vendor in VENDORS and kind.startswith(DISPLAY) and not virtual:
            found.append(f"{vendor}:{text(root, f'{folder}/{name}/device')}")
    return sorted(found)


def apple_gpus(unknown: dict[str, str], run: Command = macos.command) -> list[dict[str, Any]]:
    """A Mac's GPUs; their clocks, power and load are not to be had without root."""
    found = macos.displays(run)
    if found is None:
        unknown["gpus"] = "system_profiler SPDisplaysDataType gave no answer"
        return []
    shared = macos.sysctl_int("hw.memsize")
    return [
        {
            "vendor": "Apple" if "Apple" in str(entry.get("sppci_model")) else None,
            "name": entry.get("sppci_model") or entry.get("_name"),
            "cores": _number(entry.get("sppci_cores")),
            "metal": entry.get("spdisplays_mtlgpufamilysupport"),
            "memory_bytes": shared,  # Apple silicon shares the machine's memory
            "driver": None,
            "unknown": {"driver": "a part of macOS"},
        }
        for entry in found
    ]


def _number(content: object) -> int | None:
    return int(content) if isinstance(content, str) and content.isdigit() else None
