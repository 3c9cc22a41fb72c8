"""What Snakemake made of an environment's .yaml, told from inside a job in which it is active.

Measured processes are started in it directly, without activating it once more for each cell. So
the marker keeps what activating sets: https://docs.conda.io/projects/conda/en/stable/dev-guide/deep-dives/activation.html
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

from gemmgrid.records import locks
from gemmgrid.records.run import now

HOOKS = "etc/conda/activate.d"
CURE = "Remove that folder and start again: Snakemake makes it anew"
HOOK_S = 60.0
"""Seconds that the environment's own scripts may take."""

_SOURCE = """
for script in "$CONDA_PREFIX"/etc/conda/activate.d/*.sh; do
    if [ -e "$script" ]; then . "$script" >&2; fi
done
env -0
"""


def describe(name: str, meant: Path, envs: Path, active: str | None = None) -> dict[str, Any]:
    """The marker of a conda environment, as `build` gives one of a venv.

    meant    the folder in which Snakemake keeps it
    active   the folder of the environment that is active; by default as CONDA_PREFIX says

    Snakemake goes on where an activation fails, and then another environment may be active: the one
    that it was itself started in. Then, and where it is broken, the status is `failed`.
    """
    prefix = active or os.environ.get("CONDA_PREFIX")
    marker: dict[str, Any] = {
        "status": "failed",
        "name": name,
        "prefix": str(meant),
        "python": platform.python_version(),
        "lock_hash": None,
        "packages": [],
        "activation": {},
        "reason": None,
        "log_tail": None,
        "built_at": now(),
    }
    if not prefix or Path(prefix).resolve() != meant.resolve():
        found = f"{prefix} is active in its place" if prefix else "none is active"
        marker["reason"] = f"the conda environment {meant} was not activated: {found}. {CURE}"
    elif not os.access(meant / "bin/python", os.X_OK):
        problem = "it has no bin/python that runs"
        marker["reason"] = f"the conda environment {meant} is broken: {problem}. {CURE}"
    else:
        marker.update(status="ok", packages=packages_in(meant), activation=activation(meant))
    try:
        marker["lock_hash"] = locks.lock_hash(*locks.files_of(name, "conda", envs))
    except OSError:
        pass  # its .yaml was removed meanwhile
    return marker


def packages_in(prefix: Path) -> list[dict[str, Any]]:
    """Name, version and build of every package, from conda's own records."""
    packages: list[dict[str, Any]] = []
    for path in sorted((prefix / "conda-meta").glob("*.json")):
        try:
            meta = json.loads(path.read_text(encoding="utf-8"))
            packages.append({key: meta.get(key) for key in ("name", "version", "build")})
        except (OSError, ValueError):
            packages.append({"name": path.stem, "version": None, "build": None})
    return packages


def activation(prefix: Path) -> dict[str, str]:
    """The variables that activating the environment sets, beside the PATH that it leads.

    Its packages' scripts are run in a shell without any other variable, so that what they set is
    theirs; what the environment itself was told to set (`conda env config vars`) lies in a file.
    """
    found = {"CONDA_PREFIX": str(prefix), "CONDA_DEFAULT_ENV": str(prefix)}
    if any((prefix / HOOKS).glob("*.sh")):
        path = os.pathsep.join([str(prefix / "bin"), os.defpath])
        clean = {**found, "CONDA_SHLVL": "1", "HOME": os.environ.get("HOME", "/"), "PATH": path}
        try:
            said = subprocess.run(
                ["bash", "--noprofile", "--norc", "-c", _SOURCE],
                env=clean,
                stdout=subprocess.PIPE,
                timeout=HOOK_S,
                check=False,
            ).stdout.decode(errors="replace")
        except (OSError, subprocess.TimeoutExpired):
            said = ""
        known = {*clean, "PWD", "SHLVL", "_", "OLDPWD"}
        for line in filter(None, said.split("\0")):
            key, _, value = line.partition("=")
            if key not in known:
                found[key] = value
    try:
        state = json.loads((prefix / "conda-meta/state").read_text(encoding="utf-8"))
        found.update({str(key): str(value) for key, value in state["env_vars"].items()})
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        pass  # most environments have none
    return found
