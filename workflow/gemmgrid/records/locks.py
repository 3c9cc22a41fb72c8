"""The hash of what an environment's file asks for: another hash is another environment."""

from __future__ import annotations

import hashlib
import platform
import sys
from pathlib import Path

_PIN_PLATFORMS = {
    ("linux", "x86_64"): "linux-64",
    ("linux", "aarch64"): "linux-aarch64",
    ("linux", "ppc64le"): "linux-ppc64le",
    ("darwin", "arm64"): "osx-arm64",
    ("darwin", "x86_64"): "osx-64",
}


def lock_hash(*files: Path) -> str:
    """Hash of the files' lines without comments and blank lines. OSError where one is missing."""
    wanted: list[str] = []
    for file in files:
        lines = file.read_text(encoding="utf-8").splitlines()
        kept = [line.partition(" #")[0].rstrip() for line in lines]
        wanted += [line for line in kept if line.strip() and not line.lstrip().startswith("#")]
    return hashlib.sha256("\n".join(wanted).encode()).hexdigest()[:16]


def files_of(environment: str, deploy: str, envs: Path) -> list[Path]:
    """The files under `envs` from which a deployment makes the environment; none for "none"."""
    if deploy == "venv":
        return [envs / f"{environment}.txt"]
    if deploy != "conda":
        return []
    here = _PIN_PLATFORMS.get((sys.platform, platform.machine()), "")
    pin = envs / f"{environment}.{here}.pin.txt"
    return [envs / f"{environment}.yaml", *([pin] if pin.exists() else [])]
