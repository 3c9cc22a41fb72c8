"""The software part of a run's context: packages and builds, BLAS file, variables, lock.

Read from files alone, without starting a backend, so that the same can be read again later: today's
packages and library files against those of a run say whether its software is still what is here.
Standard library only.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gemmgrid.measure.supervise.environment import KEPT
from gemmgrid.records.cell import PROTOCOL

BLOCK, BLOCKS = 4096, 64
"""A library's fingerprint reads its size, its ends, and that many blocks spread over it."""
_ASK = """
import json, platform, sys
from importlib import metadata
found = {}
for one in metadata.distributions():
    found.setdefault(one.metadata["Name"], one.version)
print(json.dumps({"python": platform.python_version(), "prefix": sys.prefix, "packages": found}))
"""


def backend_context(
    spec: Mapping[str, Any],
    variables: Mapping[str, str],
    deploy: str,
    prefix: str | None,
    lock: str | None,
) -> dict[str, Any]:
    """What is known before a backend starts; `with_identity` adds what a process saw.

    spec        the plan's: adapter, device, options …
    variables   those set for the measured processes
    prefix      the environment's folder; None for an interpreter of the user's own
    """
    unknown: dict[str, str] = {}
    found = installed(Path(prefix)) if prefix and deploy != "none" else None
    if found is None:
        unknown["packages"] = (
            "an interpreter of the user's own: only what the backend names is looked at"
            if deploy == "none"
            else f"there is no environment at {prefix}"
        )
    context: dict[str, Any] = {
        "deploy": deploy,
        "adapter": spec["adapter"],
        "options": dict(spec.get("options") or {}),
        "protocol": PROTOCOL,
        "lock": lock,
        "python": python_of(Path(prefix)) if prefix and deploy != "none" else None,
        "packages": found,
        "variables": in_force(variables),
        "library": None,
        "precision": {},
        "unknown": unknown,
    }
    return context


def with_identity(
    context: Mapping[str, Any], identity: Mapping[str, Any], prefix: str | None
) -> dict[str, Any]:
    """The context completed with what an invocation's `identity` says was loaded."""
    complete = dict(context)
    complete["library"] = library_context(identity.get("library"), prefix)
    complete["precision"] = dict(identity.get("precision") or {})
    if complete["packages"] is None and identity.get("packages"):
        complete["packages"] = {name: str(one) for name, one in identity["packages"].items() if one}
        complete["python"] = identity.get("python")
    return complete


def in_force(variables: Mapping[str, str]) -> dict[str, str]:
    """Without variables that choose a device or a search path: what they chose is recorded."""
    return {name: value for name, value in variables.items() if name not in KEPT}


def library_context(library: Mapping[str, Any] | None, prefix: str | None) -> dict[str, Any] | None:
    """The BLAS library as loaded: name, version, core, file and its content's fingerprint."""
    if not library:
        return None
    file = library.get("file")
    kept = {key: library.get(key) for key in ("name", "version", "core", "threading", "interface")}
    return {
        **kept,
        "file": short_path(file, prefix) if file else None,
        "fingerprint": fingerprint(Path(file)) if file else None,
    }


def short_path(file: str, prefix: str | None) -> str:
    """A file inside its environment relative to it, elsewhere without the user's home folder."""
    if prefix:
        for root in {prefix, os.path.realpath(prefix)}:
            if file.startswith(root.rstrip("/") + "/"):
                return file[len(root.rstrip("/")) + 1 :]
    home = str(Path("~").expanduser()).rstrip("/")
    return f"~{file[len(home) :]}" if home and file.startswith(f"{home}/") else file


def long_path(file: str, prefix: str | None) -> Path:
    """The other way: where a file that `short_path` shortened lies now."""
    path = Path(file).expanduser()
    return path if path.is_absolute() or not prefix else Path(prefix) / path


def fingerprint(file: Path) -> str | None:
    """Hash of a file's size and of blocks spread over its content; None where it cannot be read.

    Two builds of a library differ all over, so 66 blocks of 4 KiB find them; reading a GPU library
    of half a gigabyte whole would cost more than a cell.
    """
    found = hashlib.sha256()
    try:
        with file.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            found.update(str(size).encode())
            last = max(0, size - BLOCK)
            for offset in sorted({last * step // BLOCKS for step in range(BLOCKS + 1)}):
                stream.seek(offset)
                found.update(stream.read(BLOCK))
    except OSError:
        return None
    return found.hexdigest()[:16]


def installed(prefix: Path) -> dict[str, str] | None:
    """Packages of an environment as name → "version build", from its folders' names alone.

    conda's own list where there is one, with what pip added to it; None where nothing is there.
    """
    conda = _conda_packages(prefix)
    wheels = _wheels(prefix, added_only=bool(conda))
    if conda is None and wheels is None:
        return None
    return dict(sorted({**(wheels or {}), **(conda or {})}.items()))


def python_of(prefix: Path) -> str | None:
    """The version of an environment's Python, from its own files."""
    try:
        text = (prefix / "pyvenv.cfg").read_text(encoding="utf-8")
    except OSError:
        version = (_conda_packages(prefix) or {}).get("python")
        return version.split()[0] if version else None
    found = re.search(r"^version(?:_info)?\s*=\s*(\d+\.\d+(?:\.\d+)?)", text, re.MULTILINE)
    return found[1] if found else None


def ask_interpreter(python: str, names: Iterable[str], path: str | None) -> dict[str, Any] | None:
    """Python version and packages of an interpreter at hand, only those named; None if it fails.

    path   the PYTHONPATH that its site wants
    """
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env |= {"PYTHONPATH": path} if path else {}
    try:
        done = subprocess.run(
            [python, "-s", "-c", _ASK],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
            env=env,
            cwd="/",
        )
        answer = json.loads(done.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None
    versions = {_canonical(name): version for name, version in answer["packages"].items() if name}
    answer["packages"] = {
        name: versions[_canonical(name)] for name in names if _canonical(name) in versions
    }
    return dict(answer)


def _conda_packages(prefix: Path) -> dict[str, str] | None:
    found = {}
    for file in prefix.glob("conda-meta/*.json"):
        parts = file.stem.rsplit("-", 2)
        if len(parts) == 3:
            found[parts[0]] = f"{parts[1]} {parts[2]}"
    return found or None


def _wheels(prefix: Path, added_only: bool) -> dict[str, str] | None:
    folders = list(prefix.glob("lib/python*/site-packages"))
    if not folders:
        return None
    found = {}
    for info in folders[0].glob("*.dist-info"):
        name, dash, version = info.name.removesuffix(".dist-info").partition("-")
        if not dash or (added_only and _line(info / "INSTALLER") == "conda"):
            continue
        build = _wheel_build(info / "WHEEL")
        found[_canonical(name)] = f"{version} {build}" if build else version
    return found


def _wheel_build(file: Path) -> str | None:
    """Which of the wheels of one version this is: its build number and first platform tag."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    number = re.search(r"^Build:\s*(\S+)", text, re.MULTILINE)
    tag = re.search(r"^Tag:\s*(\S+)", text, re.MULTILINE)
    anywhere = tag is not None and tag[1].endswith("-none-any")
    parts = [number[1] if number else "", tag[1] if tag and not anywhere else ""]
    return " ".join(filter(None, parts)) or None


def _line(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError:
        return None


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
