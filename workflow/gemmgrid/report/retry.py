"""The exact command that measures a cell again."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote

_DEPLOYMENTS = {"conda": " --use-conda", "none": " --config deploy=none"}
DEFAULT_CONFIG = "config/config.yaml"


def command(path: str, deploy: str | None, configfiles: Sequence[str] = ()) -> str:
    """What to type in the project's folder to measure the cell whose file is `path` again.

    deploy: conda, none or venv (the default); configfiles: those of the study that plans the cell.
    """
    named = " ".join(quote(file) for file in configfiles if file != DEFAULT_CONFIG)
    study = f" --configfile {named}" if named else ""
    return f"snakemake --cores 1{study}{_DEPLOYMENTS.get(deploy or '', '')} -f {quote(path)}"
