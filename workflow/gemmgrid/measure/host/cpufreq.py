"""Clocks, settings, throttling and power of the CPU, as the Linux kernel tells them now.

By hand, because psutil knows neither governor, turbo nor throttling, asks every sensor of the
machine for one temperature, and takes the battery of a mouse for the machine's.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gemmgrid.system.files import chosen, entries, integer, text

CPU = "sys/devices/system/cpu"
LOOKED_AT = 16
"""CPUs asked for their clock: each question costs, and machines have hundreds of CPUs."""
SENSORS = ("coretemp", "k10temp", "zenpower", "cpu_thermal", "soc_thermal")
ZONES = ("x86_pkg_temp", "cpu-thermal", "cpu_thermal", "soc_thermal", "soc-thermal")


def some(cpus: list[int], at_most: int = LOOKED_AT) -> list[int]:
    """At most so many of the CPUs, spread evenly."""
    if len(cpus) <= at_most:
        return cpus
    return [cpus[index * len(cpus) // at_most] for index in range(at_most)]


def clock_mhz(root: Path, cpus: Iterable[int]) -> tuple[list[float] | None, str | None]:
    """Present clocks of these CPUs in MHz, or None and the reason."""
    found = [integer(root, f"{CPU}/cpu{cpu}/cpufreq/scaling_cur_freq") for cpu in cpus]
    clocks = [kilohertz / 1000 for kilohertz in found if kilohertz]
    if clocks:
        return clocks, None
    listing = text(root, "proc/cpuinfo") or ""
    # Without aperfmperf "cpu MHz" is the nominal clock, whatever the real one is.
    if " aperfmperf" not in listing:
        return None, "the kernel cannot see the clock (no cpufreq, no aperfmperf)"
    wanted = set(cpus)
    clocks = []
    number = -1
    for line in listing.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "processor":
            number = int(value)
        elif key.strip() == "cpu MHz" and number in wanted:
            clocks.append(float(value))
    return (clocks, None) if clocks else (None, "/proc/cpuinfo tells no clock")


SETTINGS_UNKNOWN = {
    "governor": "the kernel offers no cpufreq here (usual in a virtual machine and on macOS)",
    **dict.fromkeys(("turbo", "smt", "thp", "numa_balancing"), "the kernel does not tell it"),
}
"""Why a setting is None."""


def settings(root: Path, cpus: Iterable[int]) -> dict[str, Any]:
    """Switches of the system that move numbers: governor (of these CPUs, several joined by "+"),
    turbo, smt (both on or off), thp (transparent huge pages), numa_balancing."""
    active = integer(root, f"{CPU}/smt/active")
    return {
        "governor": _common(root, cpus, "scaling_governor"),
        "turbo": turbo(root),
        "smt": None if active is None else active == 1,
        "thp": chosen(text(root, "sys/kernel/mm/transparent_hugepage/enabled")),
        "numa_balancing": integer(root, "proc/sys/kernel/numa_balancing"),
    }


def energy_preference(root: Path, cpus: Iterable[int]) -> str | None:
    """The hint by which hardware-controlled clocks weigh speed against power."""
    return _common(root, cpus, "energy_performance_preference")


def _common(root: Path, cpus: Iterable[int], name: str) -> str | None:
    found = {text(root, f"{CPU}/cpu{cpu}/cpufreq/{name}") for cpu in cpus}
    return "+".join(sorted(value for value in found if value)) or None


def turbo(root: Path) -> bool | None:
    """Whether clocks above the nominal one are allowed; None where the kernel does not tell."""
    off = integer(root, f"{CPU}/intel_pstate/no_turbo")
    if off is not None:
        return off == 0
    boost = integer(root, f"{CPU}/cpufreq/boost")
    if boost is None:  # amd-pstate has the switch in each policy (Linux 6.11)
        boost = integer(root, f"{CPU}/cpufreq/policy0/boost")
    return None if boost is None else boost == 1


def throttle_events(root: Path, cpus: Iterable[int]) -> int | None:
    """Sum of the thermal throttle counters of these CPUs: only its growth has a meaning.

    Intel only; None elsewhere.
    """
    names = ("core_throttle_count", "package_throttle_count")
    counts = [
        integer(root, f"{CPU}/cpu{cpu}/thermal_throttle/{name}") for cpu in cpus for name in names
    ]
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def temperature_c(root: Path) -> float | None:
    """Hottest CPU package in degrees Celsius."""
    found: list[int] = []
    for name in entries(root, "sys/class/hwmon"):
        folder = f"sys/class/hwmon/{name}"
        # The first sensor of these drivers is the package; the others are single cores.
        if text(root, f"{folder}/name") in SENSORS:
            found.append(integer(root, f"{folder}/temp1_input") or 0)
    if not any(found):
        for name in entries(root, "sys/class/thermal"):
            folder = f"sys/class/thermal/{name}"
            if name.startswith("thermal_zone") and text(root, f"{folder}/type") in ZONES:
                found.append(integer(root, f"{folder}/temp") or 0)
    hottest = max(found, default=0)
    return hottest / 1000 if hottest > 0 else None


def power_source(root: Path) -> str | None:
    """ "ac", "battery", or None where no power supply is described (most servers)."""
    mains: list[bool] = []
    discharging = False
    for name in entries(root, "sys/class/power_supply"):
        folder = f"sys/class/power_supply/{name}"
        if text(root, f"{folder}/scope") == "Device":  # the battery of a mouse
            continue
        kind = text(root, f"{folder}/type")
        if kind in ("Mains", "USB"):
            mains.append(integer(root, f"{folder}/online") == 1)
        elif kind == "Battery":
            discharging = discharging or text(root, f"{folder}/status") == "Discharging"
    if any(mains):
        return "ac"
    if discharging:
        return "battery"
    return "ac" if mains else None
