"""The exact command that measures a cell again."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote

DEFAULT_CONFIG = "config/config.yaml"


def deployment(deploy: str | None) -> tuple[str, list[str]]:
    """What a command adds for conda, none or venv (the default): flags, and words for --config."""
    return " --use-conda" if deploy == "conda" else "", ["deploy=none"] * (deploy == "none")


def command(
    path: str, deploy: str | None, configfiles: Sequence[str] = (), machine: str | None = None
) -> str:
    """What to type in the project's folder to measure the cell whose file is `path` again.

    deploy: conda, none or venv (the default); configfiles: those of the study that plans the cell;
    machine: its name in config/machines.yaml where it is reached through SLURM.
    """
    named = " ".join(quote(file) for file in configfiles if file != DEFAULT_CONFIG)
    study = f" --configfile {named}" if named else ""
    flags, words = deployment(deploy)
    where = " --profile profiles/slurm" if machine else " --cores 1"
    words += [f"machines={machine}"] if machine else []
    config = f" --config {' '.join(words)}" if words else ""
    return f"snakemake{where}{study}{flags}{config} -f {quote(path)}"
