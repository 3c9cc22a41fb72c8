"""What NVIDIA's driver and cuBLAS say about themselves, for every adapter on that device.

Not yet run on that hardware: the functions are those of NVIDIA's documentation.
"""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from typing import Any

from gemmgrid.measure.libraries import describe_other
from gemmgrid.measure.libraries.linker import mapped_files, opened

DRIVER = Path("/proc/driver/nvidia/version")


def driver_version() -> str | None:
    """Version of the loaded kernel driver (Linux), or None."""
    try:
        text = DRIVER.read_text(encoding="utf-8")
    except OSError:
        return None
    found = re.search(r"Kernel Module.*?\s(\d+(?:\.\d+)+)", text)
    return found[1] if found else None


def device(unknown: dict[str, str], **facts: Any) -> dict[str, Any]:
    """The record's "device"; a missing driver's reason goes to `unknown`. No UUID, no serial."""
    driver = driver_version()
    if driver is None:
        unknown["device.driver"] = f"{DRIVER} cannot be read"
    return {**facts, "driver": driver}


def cublas() -> dict[str, Any]:
    """The record's "library": cuBLAS as mapped, with the version that it tells."""
    file = next((file for file in mapped_files() if "/libcublas.so" in file), None)
    absent = "no libcublas is mapped; call it after a product"
    reasons = {
        "core": "cuBLAS chooses a kernel for every call and does not tell which",
        "version": "cublasGetProperty failed" if file else absent,
        "file": absent,
    }
    version = _version(file) if file else None
    reason = "does not apply to a GPU library"
    return describe_other("cuBLAS", "cublas", reason, version=version, file=file, unknown=reasons)


def _version(file: str) -> str | None:
    """cublasGetProperty(MAJOR_VERSION 0, MINOR_VERSION 1, PATCH_LEVEL 2); needs no handle."""
    handle = opened(file)
    if handle is None:
        return None
    parts = []
    for kind in range(3):
        value = ctypes.c_int()
        if handle.cublasGetProperty(kind, ctypes.byref(value)) != 0:
            return None
        parts.append(str(value.value))
    return ".".join(parts)
