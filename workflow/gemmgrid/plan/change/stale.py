"""The list that `stale` prints: which cells' latest runs no longer describe the machine, and why.

`gemmgrid stale` prints it. Nothing is measured.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from gemmgrid.plan.change.standing import (
    Latest,
    Standing,
    read_answer,
    read_plan,
    standings,
    told_time,
)
from gemmgrid.records.context import describe
from gemmgrid.records.text import count

MOST_CELLS = 8
MOST_CHANGES = 12


def listing(standings: Sequence[Standing], again: str, one_cell: str) -> str:
    """What `stale` prints: cells grouped by what changed, the time, and the commands.

    again: the command that refreshes; one_cell: the one for a single cell, with `{}` for its file.
    """
    stale = [one for one in standings if one.stale]
    machines = ", ".join(sorted({one.entry.machine for one in standings})) or "no machine"
    measured = sum(not one.missing for one in standings)
    counted = count("cell", measured)
    lines = []
    if not measured:
        lines.append(f"nothing can be stale: no cell of {machines} is measured yet")
    elif not stale:
        lines.append(f"nothing is stale: {counted} of {machines} fit the machine as it is now")
    else:
        lines.append(
            f"{len(stale)} of {counted} were measured in another context than {machines} has now"
        )
    groups = sorted(_groups(stale).items(), key=lambda item: -len(item[1]))
    for changes, members in groups:
        lines += [
            "",
            f"{count('cell', len(members))}, {told_time(members)} to measure again, because",
        ]
        told = [describe(key, (old, new)) for key, old, new in changes]
        lines += [f"  {text}" for text in told[:MOST_CHANGES]]
        if len(told) > MOST_CHANGES:
            lines.append(f"  … and {len(told) - MOST_CHANGES} more changes")
        lines += [f"    {one.entry.backend}/{one.entry.cell.name}" for one in members[:MOST_CELLS]]
        if len(members) > MOST_CELLS:
            lines.append(f"    … and {len(members) - MOST_CELLS} more")
    if stale:
        lines += [
            "",
            f"measure {count('cell', len(stale))} again ({told_time(stale)}):",
            f"  {again}",
        ]
        lines += ["one cell alone:", f"  {one_cell.format(stale[0].entry.path)}"]
    lines += _beside(standings)
    return "\n".join(lines) + "\n"


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
        yield f"{count('cell', missing)} without any run{made}: refresh --config only=missing"
    if failed:
        yield f"{count('cell', failed)} whose latest run failed: refresh --config only=failed"
    for reason in dict.fromkeys(one.elsewhere for one in standings if one.elsewhere):
        members = [one for one in standings if one.elsewhere == reason]
        for alone, when in ((True, "only"), (False, "later")):
            if number := sum(one.missing is alone for one in members):
                yield f"{count('cell', number)} run {when} on another machine: {reason}"
    for reason in dict.fromkeys(text for one in standings for text in one.unknown):
        backends = sorted({one.entry.backend for one in standings if reason in one.unknown})
        yield f"packages and BLAS of {', '.join(backends)} not compared: {reason}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="gemmgrid stale", description=__doc__)
    parser.add_argument("--plan", type=Path, required=True, help="results/.plan/plan.jsonl")
    parser.add_argument("--again", required=True, help="the command that refreshes")
    parser.add_argument("--one-cell", required=True, help="the same for one cell, {} its file")
    parser.add_argument(
        "now", type=Path, nargs="+", help="answers of gemmgrid.measure.supervise.current_context"
    )
    given = parser.parse_args(arguments)
    answers = {answer["machine"]: answer for answer in map(read_answer, given.now)}
    found = standings(read_plan(given.plan), answers, Latest())
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]  # for an ASCII terminal
    sys.stdout.write(listing(found, given.again, given.one_cell))
    return 0
