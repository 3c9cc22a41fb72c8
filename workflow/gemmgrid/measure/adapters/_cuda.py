"""What NVIDIA's driver and cuBLAS say about themselves, for every adapter on that device.

Not yet run on that hardware: the functions are those of NVIDIA's documentation.
"""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from typing import Any

from gemmgrid.measure.libraries.linker import mapped_files, opened

DRIVER = Path("/proc/driver/nvidia/version")


def driver_version() -> str | None:
    """Version of the loaded kernel driver (Linux), or None."""
    try:
        text = DRIVER.read_text()
    except OSError:
        return None
    found = re.search(r"Kernel Module.*?\s(\d+(?:\.\d+)+)", text)
    return found[1] if found else None


def cublas() -> dict[str, Any]:
    """The record's "library": cuBLAS as mapped, with the version that it tells."""
    file = next((file for file in mapped_files() if "/libcublas.so" in file), None)
    version = _version(file) if file else None
    unknown = {
        "core": "cuBLAS chooses a kernel for every call and does not tell which",
        "threading": "does not apply to a GPU library",
        "interface": "does not apply to a GPU library",
    }
    if file is None:
        unknown["file"] = unknown["version"] = "no libcublas is mapped; call it after a product"
    elif version is None:
        unknown["version"] = "cublasGetProperty failed"
    return {
        "name": "cuBLAS",
        "family": "cublas",
        "version": version,
        "file": file,
        "core": None,
        "threading": None,
        "interface": None,
        "others": [],
        "unknown": unknown,
    }


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
