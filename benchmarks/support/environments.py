"""The backends' virtual environments: those of the project, built where they are missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gemmgrid.measure.supervise.environment import measured_environment
from gemmgrid.measure.supervise.request import Environment
from gemmgrid.plan.environments import marker_path
from gemmgrid.plan.environments.build import build, packages_in, write_marker
from support import PACKAGE, ROOT

VENVS = ROOT / ".envs"


def ready(name: str) -> Environment:
    """The environment of that name, ready to be measured in.

    One that is there is taken as it is. RuntimeError with uv's reason where it cannot be built.
    """
    prefix = VENVS / name
    python = prefix / "bin" / "python"
    if not python.exists():
        made = build(name, ROOT / "envs", VENVS)
        write_marker(marker_path(name, ROOT), made)
        if made["status"] != "ok":
            raise RuntimeError(f"the environment {name} could not be built: {made['reason']}")
    packages: list[dict[str, Any]] = [{**package, "build": None} for package in packages_in(prefix)]
    return Environment(name, "venv", str(python), str(prefix), packages)


def write_marker_for(environment: Environment, path: Path) -> Path:
    """A marker such as the workflow's, for a command that reads one."""
    document: dict[str, Any] = {
        "status": "ok",
        "prefix": environment.prefix,
        "packages": environment.packages,
        "lock_hash": environment.lock_hash,
        "reason": None,
        "log_tail": None,
        "activation": {},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def variables(threads: int, python_path: tuple[Path, ...] = (PACKAGE,)) -> dict[str, str]:
    """What a measured process of so many threads sees as its environment."""
    env = measured_environment(threads, "cpu", {}).env
    return {**env, "PYTHONPATH": os.pathsep.join(map(str, python_path))}


def inherited(*python_path: Path) -> dict[str, str]:
    """This process's own environment, with these folders as Python's path."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, python_path))}


def ask(command: list[str], env: Mapping[str, str], limit_s: float = 600.0) -> Any:
    """Run a program that prints one line of JSON; RuntimeError with the end of what it said."""
    done = subprocess.run(
        command, env=dict(env), capture_output=True, encoding="utf-8", timeout=limit_s, check=False
    )
    if done.returncode != 0 or not done.stdout.strip():
        said = (done.stderr or done.stdout).strip()[-2000:]
        raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}: {said}")
    return json.loads(done.stdout.splitlines()[-1])


def note(text: str) -> None:
    """A line about the progress, apart from the figures."""
    print(text, file=sys.stderr, flush=True)
