"""The backends' interpreters for tests: those of .envs/, built where one is missing.

GEMMGRID_ENVS names another folder that holds them.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(os.environ.get("GEMMGRID_ENVS", ROOT / ".envs"))


@cache
def interpreter(environment: str) -> Path:
    """The Python of an environment; skips what is made for other machines, fails if unbuildable."""
    if "mkl" in environment and platform.machine() != "x86_64":
        pytest.skip("hardware: MKL is made for x86-64 only")
    python = FOLDER / environment / "bin" / "python"
    if not python.exists():
        marker = FOLDER / f"{environment}.json"
        build = [sys.executable, "-m", "gemmgrid", "build", environment]
        places = ["--envs", ROOT / "envs", "--into", FOLDER, "--marker", marker]
        subprocess.run([*build, *map(str, places)], env=variables(), check=False)
        if not python.exists():
            said = marker.read_text() if marker.exists() else "nothing"
            pytest.fail(f"environment {environment} cannot be built: {said}")
    return python


def run(environment: str, *arguments: str, **more: str) -> str:
    """What the environment's Python prints; fails with its error output. `more`: variables."""
    done = subprocess.run(
        [str(interpreter(environment)), "-s", *arguments],
        env={**variables(), **more},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    if done.returncode:
        pytest.fail(f"{environment}: exit code {done.returncode}\n{done.stderr[-3000:]}")
    return done.stdout


def variables() -> dict[str, str]:
    """The shell's environment with the project's package, without chosen kernels or threads."""
    dropped = ("OPENBLAS_", "MKL_", "OMP_", "BLIS_", "JAX_", "XLA_", "ONEDNN_", "NPROC")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    return {**kept, "PYTHONPATH": str(ROOT / "workflow")}
