"""Which cells a refresh measures, and the commands for the same study."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import Any

from gemmgrid.plan.change.standing import Standing, told_time
from gemmgrid.plan.config.errors import choose as allowed
from gemmgrid.records.text import count

ONLY = ("stale", "failed", "missing", "all")
_UNITS = {"min": 60, "h": 3600, "d": 86400, "w": 604800}
_AGE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(min|h|d|w)")
KEYS = ("only", "older_than")
"""Keys of --config that belong to a refresh and not to the study."""


class WrongChoiceError(ValueError):
    """The words that choose what to refresh are wrong; the text is the finished message."""


def chosen(
    standings: Iterable[Standing],
    only: str | None = None,
    older_than: str | None = None,
    now: datetime | None = None,
) -> list[Standing]:
    """The cells to measure again, in the plan's order.

    only         words of ONLY, separated by commas; stale where neither it nor an age is given
    older_than   an age such as 30d, 12h, 2w, 90min: the latest run must be at least so old; cells
                 without a run are not old but missing
    """
    words = [word.strip() for word in str(only).split(",")] if only else []
    for word in words:
        if word not in ONLY:
            raise WrongChoiceError(f"--config only: found {word!r}. {allowed(word, ONLY)}")
    age = seconds(older_than) if older_than else None
    words = words or (["all"] if age is not None else ["stale"])
    moment = now or datetime.now(UTC)
    found = []
    for one in standings:
        wanted = "all" in words or any(getattr(one, word) for word in words)
        if age is not None and (one.missing or one.age_s(moment) < age):
            wanted = False
        if wanted:
            found.append(one)
    return found


def seconds(age: str) -> float:
    """`30d`, `12h`, `2w` or `90min` in seconds; WrongChoiceError for anything else."""
    match = _AGE.fullmatch(str(age).strip())
    if not match:
        raise WrongChoiceError(
            f"--config older_than: found {age!r}. Allowed: a number and min, h, d or w, as in 30d."
        )
    return float(match[1]) * _UNITS[match[2]]


def told(found: Sequence[Standing], only: str | None, older_than: str | None) -> str:
    """One line about what a refresh is going to do."""
    words = only or ("" if older_than else "stale")
    if older_than:
        words = f"{words} older than {older_than}".strip()
    if not found:
        return f"refresh: no cell is {words}: nothing to do"
    return f"refresh: {count('cell', len(found))} {words}, {told_time(found)}"


def command(target: str, study: Sequence[str], deploy: str, slurm: bool) -> str:
    """A command for the same study: `study` is what `study_arguments` gave."""
    start = "snakemake --profile profiles/slurm" if slurm else "snakemake --cores 1"
    conda = ["--use-conda"] if deploy == "conda" else []
    return " ".join([start, target, *conda, *study])


def study_arguments(files: Iterable[Path], config: Mapping[str, Any]) -> list[str]:
    """--configfile and --config as they were given, without what belongs to the refresh itself."""
    here = Path.cwd()
    named = [os.path.relpath(file) if Path(file).is_relative_to(here) else file for file in files]
    settings = [f"{key}={value}" for key, value in config.items() if key not in KEYS]
    return [
        *(["--configfile", *(quote(str(name)) for name in named)] if named else []),
        *(["--config", *map(quote, settings)] if settings else []),
    ]
