"""The processor of a Mac, from sysctl. Not yet run on a Mac: tested with recorded values."""

from __future__ import annotations

from typing import Any

from gemmgrid.system import macos
from gemmgrid.system.macos import Sysctl, sysctl_int, sysctl_text

FEATURES = {
    "FEAT_FP16": "asimdhp",
    "FEAT_DotProd": "asimddp",
    "FEAT_FHM": "asimdfhm",
    "FEAT_BF16": "bf16",
    "FEAT_I8MM": "i8mm",
    "FEAT_SME": "sme",
    "FEAT_SME2": "sme2",
}
"""hw.optional.arm.<left> is what the Linux kernel calls <right>."""


def facts(unknown: dict[str, str], ask: Sysctl = macos.sysctl) -> dict[str, Any]:
    """The `cpu` part of the facts of a Mac, Apple silicon or Intel."""
    physical = sysctl_int("hw.physicalcpu_max", ask)
    logical = sysctl_int("hw.logicalcpu_max", ask)
    fast = sysctl_int("hw.perflevel0.physicalcpu_max", ask)
    slow = sysctl_int("hw.perflevel1.physicalcpu_max", ask)
    silicon = sysctl_int("hw.optional.arm64", ask) == 1
    hertz = sysctl_int("hw.cpufrequency_max", ask)
    threads = logical // physical if logical and physical else None
    found = {
        "vendor": "Apple" if silicon else sysctl_text("machdep.cpu.vendor", ask),
        "model": sysctl_text("machdep.cpu.brand_string", ask),
        "family": None if silicon else sysctl_int("machdep.cpu.family", ask),
        "model_number": None if silicon else sysctl_int("machdep.cpu.model", ask),
        "stepping": None if silicon else sysctl_int("machdep.cpu.stepping", ask),
        "sockets": sysctl_int("hw.packages", ask),
        "cores": physical,
        "logical": logical,
        "smt": threads > 1 if threads else None,
        "threads_per_core": threads,
        "performance_cores": fast if fast is not None else physical,
        "efficiency_cores": slow if slow is not None else (0 if physical else None),
        "caches": _caches(ask, fast is not None) or None,
        "isa": _isa(ask, silicon) or None,
        "max_mhz": hertz / 1e6 if hertz else None,
        "base_mhz": None,
        "base_mhz_source": None,
        "clock_driver": None,
        "microcode": None,
    }
    for key, value in found.items():
        if value is None:
            unknown[f"cpu.{key}"] = "macOS does not tell it"
    return found


def _caches(ask: Sysctl, levels: bool) -> list[dict[str, Any]]:
    prefixes = ["hw.perflevel0.", "hw.perflevel1."] if levels else ["hw."]
    names = [("l1icachesize", 1, "instruction"), ("l1dcachesize", 1, "data")]
    names += [("l2cachesize", 2, "unified"), ("l3cachesize", 3, "unified")]
    found: list[dict[str, Any]] = []
    for prefix in prefixes:
        cores = sysctl_int(f"{prefix}physicalcpu_max", ask)
        for name, level, kind in names:
            size = sysctl_int(prefix + name, ask)
            if size:
                shared = sysctl_int(f"{prefix}cpusperl{level}", ask) or 1
                count = max(1, (cores or 1) // shared)
                found.append(
                    {
                        "level": level,
                        "type": kind,
                        "size_bytes": size,
                        "shared_by": shared,
                        "count": count,
                    }
                )
    return found


def _isa(ask: Sysctl, silicon: bool) -> list[str]:
    if silicon:
        named = [
            flag
            for feature, flag in FEATURES.items()
            if sysctl_int(f"hw.optional.arm.{feature}", ask)
        ]
        return ["asimd", *named]
    optional = {"avx1_0": "avx", "f16c": "f16c", "fma": "fma", "avx2_0": "avx2"}
    optional["avx512f"] = "avx512f"
    return [flag for name, flag in optional.items() if sysctl_int(f"hw.optional.{name}", ask)]
