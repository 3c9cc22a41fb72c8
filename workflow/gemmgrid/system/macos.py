"""Ask macOS about itself: sysctl through libc, memory and battery through psutil, its displays.

sysctl by hand (ctypes), because psutil does not have it, and a subprocess for each value would cost
more than a measurement may. Not yet run on a Mac: tested with recorded values.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable
from typing import Any

Sysctl = Callable[[str], bytes | None]  # name -> raw value, None where there is no such name
Command = Callable[[list[str]], str | None]  # argv -> stdout, None where it failed

COMMAND_TIMEOUT_S = 10.0


def is_darwin() -> bool:
    return sys.platform == "darwin"


def sysctl(name: str) -> bytes | None:
    """Raw value of one sysctl name, None where macOS does not know it."""
    try:
        libc = ctypes.CDLL(None)
        size = ctypes.c_size_t(0)
        key = name.encode()
        if libc.sysctlbyname(key, None, ctypes.byref(size), None, ctypes.c_size_t(0)) != 0:
            return None
        buffer = ctypes.create_string_buffer(size.value)
        if libc.sysctlbyname(key, buffer, ctypes.byref(size), None, ctypes.c_size_t(0)) != 0:
            return None
        return buffer.raw[: size.value]
    except (OSError, AttributeError):  # not macOS: libc has no sysctlbyname
        return None


def sysctl_int(name: str, ask: Sysctl = sysctl) -> int | None:
    raw = ask(name)
    return int.from_bytes(raw, sys.byteorder) if raw else None


def sysctl_text(name: str, ask: Sysctl = sysctl) -> str | None:
    raw = ask(name)
    return raw.rstrip(b"\0").decode("utf-8", "replace").strip() or None if raw else None


def command(argv: list[str]) -> str | None:
    """Standard output of one of macOS's commands, None where it is missing, fails or hangs."""
    import subprocess  # costs milliseconds that a Linux machine need not spend

    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return done.stdout if done.returncode == 0 else None


def power_source() -> str | None:
    """ "ac", "battery", or None on a Mac without a battery."""
    import psutil

    battery = psutil.sensors_battery()
    return None if battery is None else "ac" if battery.power_plugged else "battery"


def free_bytes() -> int:
    """Memory that can be had without swapping."""
    import psutil

    return int(psutil.virtual_memory().available)


def displays(run: Command = command) -> list[dict[str, Any]] | None:
    """The graphics part of `system_profiler`; None where it cannot be read.

    The answer also describes the screens, with their serial numbers: callers take only the keys
    that they name.
    """
    output = run(["/usr/sbin/system_profiler", "-json", "SPDisplaysDataType"])
    try:
        found = json.loads(output or "")["SPDisplaysDataType"]
    except (ValueError, KeyError, TypeError):
        return None
    return (
        [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else None
    )
