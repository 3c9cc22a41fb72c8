"""How environments are made, as the command line chooses it, and what to do where that fails."""

from __future__ import annotations

import os
import re
import shutil
from typing import Any

from gemmgrid.plan.config.errors import ConfigError
from gemmgrid.plan.environments import uv
from gemmgrid.plan.plan import Plan

_FAILED = re.compile(r"Could not create conda environment from \S*?([^/]+)\.yaml")


def choose(wanted: Any, use_conda: bool, inside_job: bool = False) -> str:
    """conda with --use-conda, otherwise `--config deploy=…`, otherwise venvs that uv builds.

    ConfigError for another word, and where conda is asked for and missing.
    """
    if wanted not in (None, "venv", "conda", "none"):
        raise ConfigError([f"--config deploy: found {wanted!r}; allowed: venv, conda, none"])
    if not use_conda:
        return wanted or "venv"
    # It may also be a function of the shell, exported.
    if shutil.which("conda") or "BASH_FUNC_conda%%" in os.environ or inside_job:
        return "conda"
    raise ConfigError(
        [
            "--use-conda needs conda, and there is no `conda` on the PATH. Either\n"
            "  - install it (https://conda-forge.org/download), open a new shell, and start again; "
            "or\n"
            "  - leave out --use-conda: uv then builds the backends' environments from PyPI\n"
            "    (make bench DEPLOY=venv, or snakemake --cores 1)."
        ]
    )


def check_builder(deploy: str, python: str) -> None:
    """ConfigError where environments are to be built and there is nothing to build them with."""
    if deploy == "venv" and not uv.command():
        raise ConfigError(
            [
                f"the backends' environments are built with uv, and there is none beside {python} "
                "or on the PATH. Either\n"
                "  - pip install uv; or\n"
                "  - add --use-conda, where conda is installed; or\n"
                "  - add --config deploy=none: then the first python3 on the PATH measures, with "
                "what it has."
            ]
        )


def advice(message: str, plan: Plan) -> str:
    """What to do, after Snakemake's message that conda could not make an environment; or nothing.

    Snakemake makes all environments before it starts anything.
    """
    failed = _FAILED.search(message)
    needing = [
        name
        for name, backend in plan.backends.items()
        if failed and backend.environment == failed[1]
    ]
    if not needing:
        return ""
    others = [name for name in plan.backends if name not in needing]
    text = f"\ngemmgrid: nothing was measured now: {', '.join(needing)} needs it."
    if others:
        text += f" To measure the others:\n  --config backends={','.join(others)}"
    return text
