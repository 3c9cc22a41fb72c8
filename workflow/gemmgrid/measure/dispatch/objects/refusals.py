"""Where the tracers can work, and the errors that say why they cannot.

Each refusal has its own message, because each has its own cure; none of them is ever fatal: the
evidence falls back to the next way of knowing and carries the message as its reason.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys

MACHINES = ("x86_64", "aarch64")


class DispatchError(Exception):
    """A way of knowing is not available here; its text is the reason that the record carries."""


class PlatformError(DispatchError):
    """Not a system whose loaded programs we know how to read: macOS, musl, another processor."""


class ExecutableMemoryError(DispatchError):
    """The system gives this process no new executable memory, so no stub can be placed."""


class ProtectionError(DispatchError):
    """The system does not let a read-only page of addresses be written."""


class SamplingError(DispatchError):
    """The kernel does not let this process sample itself."""


class NoSymbolsError(DispatchError):
    """The library is stripped: its kernels ran, but nothing says what they are called."""


class TracerBusyError(DispatchError):
    """Tracers patch the whole process, so only one may be on at a time."""


def platform_problem(system: str, machine: str, libc: str) -> str | None:
    """Why calls cannot be traced on this platform, or None. `libc` is "" where it is not glibc."""
    if system == "Darwin":
        return (
            "macOS: imported addresses are bound in another way than on Linux, and Accelerate "
            "calls cannot be intercepted here; what is shown comes from the source table"
        )
    if system != "Linux":
        return f"{system}: calls can be traced on Linux only"
    if not libc:
        return (
            "this Python runs on a C library that is not glibc (musl, as on Alpine): its loader "
            "keeps imported addresses in another way, so calls are not traced there"
        )
    if machine not in MACHINES:
        return f"processor {machine}: calls can be traced on {' and '.join(MACHINES)} only"
    if sys.byteorder != "little" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return f"{machine} without 64-bit little-endian addresses: calls are not traced there"
    return None


def no_executable_memory(error: str, asked: str) -> str:
    """The reason where code cannot be placed: the error's name, and who asked for the memory."""
    return (
        f"this system gives a process no new executable memory ({error} for {asked}), as hardened "
        f"systems do, so calls cannot be traced"
    )


def require_platform() -> None:
    """Raise PlatformError where calls cannot be traced."""
    problem = platform_problem(platform.system(), platform.machine(), glibc_version())
    if problem:
        raise PlatformError(problem)


def glibc_version() -> str:
    """Such as "glibc 2.36", or "" under another C library."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError, AttributeError):
        return ""
