"""Machine code in pages that are never writable: for the evidence's stubs and for the probe.

Code is written to an anonymous file first and then mapped as code only: no page is ever writable
and executable at once, and processors that cache instructions see finished code.
"""

from __future__ import annotations

import mmap
import os

import numpy as np


def place(code: bytes, name: str) -> tuple[int, mmap.mmap]:
    """Address of `code`, readable and executable, and the mapping: who keeps it keeps the code.

    name   what the mapping is called in /proc/self/maps

    Raises OSError where the system gives a process no new executable memory (hardened systems).
    """
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    try:
        os.write(descriptor, code)
        protection = mmap.PROT_READ | mmap.PROT_EXEC
        page = mmap.mmap(descriptor, len(code), mmap.MAP_PRIVATE, protection)
    finally:
        os.close(descriptor)
    return np.frombuffer(page, np.uint8).ctypes.data, page
