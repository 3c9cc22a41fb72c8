"""Environments of backends: where they are, which interpreter runs in them, how they are built.

`gemmgrid build NAME …` builds one without conda.
"""

from __future__ import annotations

from pathlib import Path

from gemmgrid.plan.config.registry import Backend
from gemmgrid.plan.environments.interpreters import host_python

VENVS = ".envs"
DEPLOYS = ("conda", "venv", "none")


def interpreter(backend: Backend, deploy: str, root: Path) -> str:
    """The Python that measures this backend: an absolute path, or `python` inside a conda env.

    venv: the environment's own under .envs/; none: the interpreter at hand, outside the project.
    A `python:` of the registry wins in every mode; with `modules:` alone it is the python3 that
    they put on the PATH. ConfigError where no interpreter is at hand.
    """
    if backend.python:
        return str(Path(backend.python).expanduser())
    if backend.modules:
        return "python3"
    if deploy == "none":
        return host_python(root)
    if deploy == "conda":
        return "python"
    return str(root.resolve() / VENVS / backend.environment / "bin" / "python")


def marker_path(environment: str, root: Path) -> Path:
    """The file that says how building this environment ended."""
    return root / VENVS / f"{environment}.json"
