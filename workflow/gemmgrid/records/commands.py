"""Command lines of Snakemake: those that messages and pages print, and those that make starts."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

DEFAULT_CONFIG = "config/config.yaml"
PROFILE = "profiles/slurm"


def words(
    targets: Iterable[str] = (),
    *,
    deploy: str | None = None,
    slurm: bool = False,
    cores: str = "1",
    others: Iterable[str] = (),
    configfiles: Iterable[str] = (),
    config: Iterable[str] = (),
    again: str | None = None,
) -> list[str]:
    """One command line of Snakemake's, word by word.

    deploy       conda, none or venv, the default, which needs no word; a deploy= in config wins
    others       further options; they and the targets come first, because Snakemake's --configfile
                 and --config take every word up to the next option
    configfiles  those of the study; the default config goes without saying
    config       words for --config, key=value
    again        a file to make anew whatever its age
    """
    files = [file for file in configfiles if file != DEFAULT_CONFIG]
    settings = list(config)
    if deploy == "none" and not any(word.startswith("deploy=") for word in settings):
        settings.append("deploy=none")
    return [
        *("snakemake", *(["--profile", PROFILE] if slurm else ["--cores", cores])),
        *(*targets, *others),
        *(["--use-conda"] if deploy == "conda" else []),
        *(["--configfile", *files] if files else []),
        *(["--config", *settings] if settings else []),
        *(["-f", again] if again is not None else []),
    ]


def text(line: Iterable[str]) -> str:
    """The command line as a shell takes it."""
    return shlex.join(line)


def study_as_given(
    files: Iterable[str | Path], config: Mapping[str, object], without: Sequence[str] = ()
) -> tuple[list[str], list[str]]:
    """`configfiles` and `config` of a command for the same study, from what Snakemake was given.

    without: keys of --config that belong to one command and not to the study.
    """
    here = Path.cwd()
    named = [
        os.path.relpath(file) if Path(file).is_relative_to(here) else str(file) for file in files
    ]
    return named, [f"{key}={value}" for key, value in config.items() if key not in without]
