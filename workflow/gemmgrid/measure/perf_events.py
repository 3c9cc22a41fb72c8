"""One counter of the kernel for one thread: perf_event_open(2), without another program or root.

Needs perf_event_paranoid of 2 or less, and a container that allows the system call.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct

HARDWARE, SOFTWARE = 0, 1
CPU_CYCLES = 0
CPU_CLOCK, TASK_CLOCK = 0, 1
TIMES = 1 | 2
"""Format of what is read: the count, then nanoseconds that it was enabled and that it ran."""
DISABLED, FREQUENCY = 1, 1 << 10
_EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR = 1 << 5, 1 << 6
_ATTRIBUTE_BYTES = 128
_CLOSE_ON_EXEC = 8
_SYSTEM_CALL = {"x86_64": 298, "aarch64": 241}

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
libc.ioctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_ulong]


def available() -> bool:
    """Whether this system has such counters at all, allowed or not."""
    return platform.system() == "Linux" and platform.machine() in _SYSTEM_CALL


def open_event(
    thread: int,
    kind: int,
    event: int,
    period: int = 0,
    sample: int = 0,
    read: int = 0,
    flags: int = 0,
) -> int:
    """The descriptor of a counter of what a thread does outside the kernel, on any CPU.

    Raises OSError where the kernel refuses it.
    """
    flags |= _EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR
    fields = (kind, _ATTRIBUTE_BYTES, event, period, sample, read, flags)
    attribute = struct.pack("<IIQQQQQ", *fields).ljust(_ATTRIBUTE_BYTES, b"\0")
    number = ctypes.c_long(_SYSTEM_CALL[platform.machine()])
    own_cpu = group = ctypes.c_long(-1)  # any CPU, no group
    descriptor = libc.syscall(
        number, attribute, ctypes.c_long(thread), own_cpu, group, ctypes.c_long(_CLOSE_ON_EXEC)
    )
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(descriptor)
