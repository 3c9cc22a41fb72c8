"""The interpreter at hand (DEPLOY=none): which one it is, and which libraries it has.

One subprocess, started only in this mode, and only once. It looks for packages without importing
them, and reads NumPy's and SciPy's build information as text.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gemmgrid.plan.config.errors import ConfigError

ADAPTER_PACKAGES = {
    "numpy": ("numpy",),
    "scipy": ("numpy", "scipy"),
    "cblas": ("numpy",),
    "torch": ("numpy", "torch"),
    "mlx": ("numpy", "mlx.core"),
    "jax": ("numpy", "jax"),
}
"""What an adapter imports; an adapter that is not listed imports NumPy and its own name."""

_PROBE = r"""
import importlib.util, json, pathlib, re, sys

def has(name):
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError, AttributeError):
        return False

def blas(package):
    try:
        folder = pathlib.Path(importlib.util.find_spec(package).origin).parent
        text = (folder / "__config__.py").read_text(encoding="utf-8")
    except Exception:
        return None
    found = re.search(r'"blas"\s*:\s*\{\s*"name"\s*:\s*"([^"]*)"', text)
    return found.group(1).lower() if found else None

print(json.dumps({
    "python": sys.executable,
    "prefix": sys.prefix,
    "has": [name for name in sys.argv[1:] if has(name)],
    "blas": {package: blas(package) for package in ("numpy", "scipy")},
}))
"""


@dataclass(frozen=True)
class Host:
    """The interpreter at hand, the packages it has, and the BLAS its NumPy and SciPy name."""

    python: str
    prefix: str
    packages: frozenset[str]
    blas: dict[str, str | None]


def host_python(root: Path) -> str:
    """The interpreter at hand, as an absolute path; ConfigError where there is none."""
    return probe(str(root.resolve())).python


def packages_of(adapter: str) -> tuple[str, ...]:
    """The packages without which an adapter cannot start."""
    return ADAPTER_PACKAGES.get(adapter, ("numpy", adapter))


@cache
def probe(root: str) -> Host:
    """Ask the interpreter at hand what it has; ConfigError where none starts."""
    python = _first_python(Path(root))
    names = sorted({name for names in ADAPTER_PACKAGES.values() for name in names})
    command = [python, "-s", "-c", _PROBE, *names, "scipy_openblas64"]
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=True, cwd="/", env=clean
        )
        answer = json.loads(done.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        raise ConfigError(
            [
                f"DEPLOY=none measures with the interpreter at hand, and {python} does not start: "
                f"{error}. Put a working python3 first on the PATH, name one with 'python:' in "
                "config/backends.yaml, or use DEPLOY=venv or DEPLOY=conda."
            ]
        ) from None
    return Host(
        python=answer["python"] or python,
        prefix=answer["prefix"],
        packages=frozenset(answer["has"]),
        blas=answer["blas"],
    )


def _first_python(root: Path) -> str:
    """The first python3 on the PATH that is not the project's own."""
    own = [root / ".venv", root / ".envs"]
    for entry in os.environ.get("PATH", "").split(os.pathsep):
        folder = Path(entry or ".").absolute()
        if any(folder.is_relative_to(inside) for inside in own):
            continue
        candidate = folder / "python3"
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return str(candidate)
    raise ConfigError(
        [
            "DEPLOY=none measures with the interpreter at hand, and the PATH has no python3 "
            "outside the project's .venv. Put one there, or use DEPLOY=venv or DEPLOY=conda."
        ]
    )
