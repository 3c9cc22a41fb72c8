"""The processor: model, topology, caches, instruction sets, clocks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from gemmgrid.measure.machine import apple
from gemmgrid.measure.machine.topology import caches, topology
from gemmgrid.system import arm, macos
from gemmgrid.system.files import entries, integer, online_cpus, text

_X86 = """
    sse4_2 avx f16c fma avx2 avx_vnni avx_vnni_int8 avx_ne_convert avx512f avx512cd avx512bw
    avx512dq avx512vl avx512_vnni avx512_bf16 avx512_fp16 amx_tile amx_bf16 amx_fp16 amx_int8
    avx10_1 avx10_2
"""
_ARM = "asimd fphp asimdhp asimddp asimdfhm bf16 i8mm sve sve2 svebf16 svei8mm sme sme2"
ISA = {"x86": _X86.split(), "arm": _ARM.split()}
"""Flags that BLAS libraries choose their kernels by, as the Linux kernel spells them."""


def facts(root: Path, architecture: str, unknown: dict[str, str]) -> dict[str, Any]:
    """The `cpu` part of the facts; reasons for nulls go into `unknown` as "cpu.…"."""
    if macos.is_darwin() and root == Path("/"):
        return apple.facts(unknown)
    listing = text(root, "proc/cpuinfo") or ""
    first = _first_block(listing)
    is_arm = architecture in ("aarch64", "arm64") or "CPU implementer" in first
    model = arm.model(listing) if is_arm else _x86_model(first)
    cpus = online_cpus(root)
    shape = topology(root, cpus, listing, unknown)
    clock = clocks(root, listing)
    found = {
        **model,
        **shape,
        "caches": caches(root, cpus),
        "isa": _isa(first, is_arm),
        **clock,
        "microcode": first.get("microcode"),
    }
    reasons = {
        "caches": "the kernel describes no caches under /sys/devices/system/cpu/cpu*/cache",
        "isa": "/proc/cpuinfo lists no flags",
        "max_mhz": "the kernel offers no cpufreq here (usual in a virtual machine)",
        "base_mhz": "neither cpufreq, the model's name nor the counter's rate tells it",
        "clock_driver": "the kernel offers no cpufreq here (usual in a virtual machine)",
        "microcode": "this architecture has none" if is_arm else "/proc/cpuinfo does not tell it",
    }
    for key, value in found.items():
        if value is None or value == []:
            found[key] = None
            unknown.setdefault(f"cpu.{key}", reasons.get(key, "/proc/cpuinfo does not tell it"))
    return found


def clocks(root: Path, listing: str) -> dict[str, Any]:
    """Highest and nominal clock in MHz, and who says so.

    clock_driver   the cpufreq driver; `acpi-cpufreq` may leave boost out of its maximum
    """
    highest = base = None
    driver = None
    for policy in _policies(root):
        driver = driver or text(root, f"{policy}/scaling_driver")
        highest = max(highest or 0, integer(root, f"{policy}/cpuinfo_max_freq") or 0) or None
        base = max(base or 0, integer(root, f"{policy}/base_frequency") or 0) or None
    nominal, source = (base / 1000, "cpufreq") if base else _nominal_mhz(listing)
    return {
        "max_mhz": highest / 1000 if highest else None,
        "base_mhz": nominal,
        "base_mhz_source": source,
        "clock_driver": driver,
    }


def _policies(root: Path) -> list[str]:
    folder = "sys/devices/system/cpu/cpufreq"
    return [f"{folder}/{name}" for name in entries(root, folder) if name.startswith("policy")]


def _nominal_mhz(listing: str) -> tuple[float | None, str | None]:
    first = _first_block(listing)
    named = re.search(r"@\s*([\d.]+)\s*GHz", first.get("model name", ""))
    if named:
        return round(float(named.group(1)) * 1000, 1), "model name"
    # Without aperfmperf the kernel cannot read the real clock and prints the rate of the time-stamp
    # counter, which runs at the nominal clock.
    flags = first.get("flags", "").split()
    if "constant_tsc" in flags and "aperfmperf" not in flags:
        try:
            return round(float(first["cpu MHz"]), 1), "time-stamp counter"
        except (KeyError, ValueError):
            pass
    return None, None


def _first_block(listing: str) -> dict[str, str]:
    """Keys and values of the first processor in /proc/cpuinfo."""
    pairs = (line.partition(":") for line in listing.partition("\n\n")[0].splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _x86_model(first: dict[str, str]) -> dict[str, Any]:
    def number(key: str) -> int | None:
        value = first.get(key, "")
        return int(value) if value.isdigit() else None

    return {
        "vendor": first.get("vendor_id"),
        "model": first.get("model name"),
        "family": number("cpu family"),
        "model_number": number("model"),
        "stepping": number("stepping"),
    }


def _isa(first: dict[str, str], is_arm: bool) -> list[str]:
    flags = set(first.get("Features" if is_arm else "flags", "").split())
    return [flag for flag in ISA["arm" if is_arm else "x86"] if flag in flags]
