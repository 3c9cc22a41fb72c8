"""Where a BLAS library's file lies in this environment, before it is loaded."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

PATTERNS = {
    "openblas": (
        "{packages}/scipy_openblas64/lib/libscipy_openblas64_.*",
        "{prefix}/lib/libopenblas.so.*",
        "{prefix}/lib/libopenblas.*dylib",
    ),
    "mkl": ("{prefix}/lib/libmkl_rt.so.*",),
    "blis": ("{prefix}/lib/libblis.so.*", "{prefix}/lib/libblis.*dylib"),
    "netlib": (
        "{prefix}/lib/libcblas.so.*",
        "{prefix}/lib/libcblas.*dylib",
    ),
    "accelerate": (),
}
"""Where wheels and conda packages put each library."""
ACCELERATE = "/System/Library/Frameworks/Accelerate.framework/Accelerate"
"""Part of macOS; it lies in the linker's cache, so no such file need exist."""


def find(family: str, prefix: str | None = None) -> str:
    """The path to load for that family.

    ValueError for an unknown family, FileNotFoundError where the environment does not have it.
    """
    if family not in PATTERNS:
        raise ValueError(f"BLAS library {family!r} is none of {', '.join(PATTERNS)}")
    if family == "accelerate":
        if sys.platform != "darwin":
            raise FileNotFoundError("Accelerate is a part of macOS, and this is another system")
        return ACCELERATE
    places = {"prefix": prefix or sys.prefix, "packages": sysconfig.get_path("platlib")}
    patterns = [pattern.format(**places) for pattern in PATTERNS[family]]
    for pattern in patterns:
        folder, name = pattern.rsplit("/", 1)
        found = sorted(Path(folder).glob(name))
        if found:
            return str(found[0])
    raise FileNotFoundError(
        f"no {family} library in this environment (looked for {', '.join(patterns)}); install it "
        "there, or give the library's own path as `options: {path: …}` in config/backends.yaml"
    )
