"""Which cells a refresh measures, and the list that `stale` prints."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import Any

from gemmgrid.plan.change.stale import Standing
from gemmgrid.plan.config.errors import choose as allowed
from gemmgrid.records.context import describe

ONLY = ("stale", "failed", "missing", "all")
_UNITS = {"min": 60, "h": 3600, "d": 86400, "w": 604800}
_AGE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(min|h|d|w)")
MOST_CELLS = 8
MOST_CHANGES = 12
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


def listing(standings: Sequence[Standing], again: str, one_cell: str) -> str:
    """What `stale` prints: cells grouped by what changed, the time, and the commands.

    again: the command that refreshes; one_cell: the one for a single cell, with `{}` for its file.
    """
    stale = [one for one in standings if one.stale]
    machines = ", ".join(sorted({one.entry.machine for one in standings})) or "no machine"
    counted = _cells(len(standings))
    lines = []
    if not stale:
        lines.append(f"nothing is stale: {counted} of {machines} fit the machine as it is now")
    else:
        lines.append(
            f"{len(stale)} of {counted} were measured in another context than {machines} has now"
        )
    groups = sorted(_groups(stale).items(), key=lambda item: -len(item[1]))
    for changes, members in groups:
        lines += ["", f"{_cells(len(members))}, {_about(members)} to measure again, because"]
        told = [describe(key, (old, new)) for key, old, new in changes]
        lines += [f"  {text}" for text in told[:MOST_CHANGES]]
        if len(told) > MOST_CHANGES:
            lines.append(f"  … and {len(told) - MOST_CHANGES} more changes")
        lines += [f"    {one.entry.backend}/{one.entry.cell.name}" for one in members[:MOST_CELLS]]
        if len(members) > MOST_CELLS:
            lines.append(f"    … and {len(members) - MOST_CELLS} more")
    if stale:
        lines += ["", f"measure {_cells(len(stale))} again ({_about(stale)}):", f"  {again}"]
        lines += ["one cell alone:", f"  {one_cell.format(stale[0].entry.path)}"]
    lines += _beside(standings)
    return "\n".join(lines) + "\n"


def told(found: Sequence[Standing], only: str | None, older_than: str | None) -> str:
    """One line about what a refresh is going to do."""
    words = only or ("" if older_than else "stale")
    if older_than:
        words = f"{words} older than {older_than}".strip()
    if not found:
        return f"refresh: no cell is {words}: nothing to do"
    return f"refresh: {_cells(len(found))} {words}, {_about(found)}"


def _groups(stale: Iterable[Standing]) -> dict[tuple[Any, ...], list[Standing]]:
    grouped: dict[str, tuple[tuple[Any, ...], list[Standing]]] = {}
    for one in stale:
        grouped.setdefault(repr(one.changes), (one.changes, []))[1].append(one)
    return dict(grouped.values())


def _beside(standings: Sequence[Standing]) -> Iterator[str]:
    """What else the reader should know: cells without a run, failed ones, what is not known."""
    missing = sum(one.missing for one in standings)
    failed = sum(one.failed for one in standings)
    if missing or failed:
        yield ""
    if missing:
        made = " of this machine" if any(one.elsewhere and one.missing for one in standings) else ""
        yield f"{_cells(missing)} without any run{made}: refresh --config only=missing"
    if failed:
        yield f"{_cells(failed)} whose latest run failed: refresh --config only=failed"
    for reason in dict.fromkeys(one.elsewhere for one in standings if one.elsewhere):
        members = [one for one in standings if one.elsewhere == reason]
        for alone, when in ((True, "only"), (False, "later")):
            if count := sum(one.missing is alone for one in members):
                yield f"{_cells(count)} run {when} on another machine: {reason}"
    for reason in dict.fromkeys(text for one in standings for text in one.unknown):
        backends = sorted({one.entry.backend for one in standings if reason in one.unknown})
        yield f"packages and BLAS of {', '.join(backends)} not compared: {reason}"


def _cells(count: int) -> str:
    return "1 cell" if count == 1 else f"{count} cells"


def _about(members: Iterable[Standing]) -> str:
    total = sum(one.seconds for one in members)
    if total < 90:
        return f"about {max(1, round(total))} s"
    return f"about {round(total / 60)} min" if total < 5400 else f"about {total / 3600:.1f} h"


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
