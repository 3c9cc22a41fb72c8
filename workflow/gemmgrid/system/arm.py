"""Names of Arm cores: /proc/cpuinfo gives numbers only.

Sources: Arm's MIDR_EL1 documentation of each core, and the kernel's
arch/arm64/include/asm/cputype.h.
"""

from __future__ import annotations

import re
from typing import Any

IMPLEMENTERS = {
    0x41: "Arm",
    0x42: "Broadcom",
    0x43: "Cavium",
    0x46: "Fujitsu",
    0x48: "HiSilicon",
    0x4E: "NVIDIA",
    0x50: "AppliedMicro",
    0x51: "Qualcomm",
    0x61: "Apple",
    0x6D: "Microsoft",
    0xC0: "Ampere",
}
PARTS = {
    (0x41, 0xD03): "Cortex-A53",
    (0x41, 0xD05): "Cortex-A55",
    (0x41, 0xD07): "Cortex-A57",
    (0x41, 0xD08): "Cortex-A72",
    (0x41, 0xD0B): "Cortex-A76",
    (0x41, 0xD0C): "Neoverse N1",
    (0x41, 0xD40): "Neoverse V1",
    (0x41, 0xD49): "Neoverse N2",
    (0x41, 0xD4F): "Neoverse V2",
    (0x41, 0xD84): "Neoverse V3",
    (0x41, 0xD8E): "Neoverse N3",
    (0x43, 0x0AF): "ThunderX2",
    (0x46, 0x001): "A64FX",
    (0x48, 0xD01): "Kunpeng 920",
    (0xC0, 0xAC3): "AmpereOne",
    (0xC0, 0xAC4): "AmpereOne A",
}


def name(implementer: int, part: int) -> str | None:
    """Vendor and core in words, as in "Arm Neoverse V2"; None for one that is not in the table."""
    if (core := PARTS.get((implementer, part))) is None:
        return None
    vendor = IMPLEMENTERS[implementer]
    return f"{vendor} {core.removeprefix(vendor)}"


def model(listing: str) -> dict[str, Any]:
    """vendor, model, family, model_number, stepping; several kinds of cores are joined by " + "."""
    kinds: dict[tuple[int, int], str] = {}
    for block in listing.split("\n\n"):
        implementer, part = _number(block, "CPU implementer"), _number(block, "CPU part")
        if implementer is not None and part is not None:
            kinds.setdefault((implementer, part), block)
    if not kinds:
        return dict.fromkeys(("vendor", "model", "family", "model_number", "stepping"))
    (implementer, part), block = next(iter(kinds.items()))
    return {
        "vendor": IMPLEMENTERS.get(implementer, f"implementer {implementer:#04x}"),
        "model": " + ".join(PARTS.get(kind, f"part {kind[1]:#05x}") for kind in sorted(kinds)),
        "family": _number(block, "CPU architecture"),
        "model_number": part,
        "stepping": f"r{_number(block, 'CPU variant') or 0}p{_number(block, 'CPU revision') or 0}",
    }


def _number(block: str, key: str) -> int | None:
    found = re.search(rf"^{key}\s*:\s*(0x[0-9a-fA-F]+|\d+)", block, re.MULTILINE)
    return int(found.group(1), 0) if found else None
