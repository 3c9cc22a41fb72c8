"""The gate for continuous integration: did each cell with a reference keep its rate?

A cell fails when the whole interval of its rate has left the band, when it has no interval and its
rate has left it, or when its latest run failed. A rate outside whose interval still reaches into
the band is a warning, which does not fail.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gemmgrid.records.files import write_atomically
from gemmgrid.report.read.collect import Collection
from gemmgrid.report.read.rows import Row
from gemmgrid.report.terminal.coverage import coverage
from gemmgrid.report.terminal.text import number, paint, wants_colour

PASS, WARN, FAIL = "pass", "warn", "fail"
_COLOURS = {PASS: "green", WARN: "yellow", FAIL: "red"}


class ReferencesExistError(FileExistsError):
    """The file is there already; the text says how to replace it."""


@dataclass(frozen=True)
class Judgement:
    """One reference's outcome: pass, warn or fail, of which cell, and why."""

    outcome: str
    place: str
    told: str


def read(path: Path) -> list[dict[str, Any]]:
    """The references as the planning wing resolved them."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def judge(collection: Collection, references: Iterable[Mapping[str, Any]]) -> list[Judgement]:
    """Each reference against its cell."""
    rows = {row.key: row for row in collection.cells}
    return [_judge(one, rows) for one in references]


def _judge(wanted: Mapping[str, Any], rows: Mapping[tuple[str, str, str], Row]) -> Judgement:
    place = f"{wanted['machine']}/{wanted['backend']}/{wanted['cell']}"
    if wanted["cell"] is None:
        return Judgement(
            FAIL, wanted["machine"], f"no measured cell is {wanted['select']} ({wanted['entry']})"
        )
    row = rows.get((wanted["machine"], wanted["backend"], wanted["cell"]))
    if row is None:
        return Judgement(FAIL, place, f"was not measured ({wanted['entry']})")
    if row["status"] != "ok":
        return Judgement(FAIL, place, f"{row['status']}: {row['reason']}")
    low, high = band(wanted)
    rate = row["gflops"]
    least, most = row["gflops_low"] or rate, row["gflops_high"] or rate
    told = (
        f"{number(rate)} GFLOP/s, {rate / wanted['value'] - 1:+.1%} of {number(wanted['value'])} "
        f"(allowed: {_limit(low)} – {_limit(high)})"
    )
    if low <= rate <= high:
        return Judgement(PASS, place, told)
    outside = most < low or least > high
    return Judgement(FAIL if outside else WARN, place, told)


def band(wanted: Mapping[str, Any]) -> tuple[float, float]:
    """Lowest and highest GFLOP/s that a reference allows."""
    value, lower, upper = wanted["value"], wanted["lower"], wanted["upper"]
    return (
        0.0 if lower is None else value * (1 + lower),
        float("inf") if upper is None else value * (1 + upper),
    )


def _limit(value: float) -> str:
    return "any" if value in (0.0, float("inf")) else number(value)


def text(found: list[Judgement]) -> str:
    """What `check` prints: what failed, what is close, and the counts."""
    colour = wants_colour()
    shown = [one for one in found if one.outcome != PASS]
    shown.sort(key=lambda one: (one.outcome != FAIL, one.place))
    lines = [f"{paint(one.outcome, _COLOURS[one.outcome], colour)}  {one.place}" for one in shown]
    lines = [f"{line}\n      {one.told}" for line, one in zip(lines, shown, strict=True)]
    counts = {word: sum(one.outcome == word for one in found) for word in (PASS, WARN, FAIL)}
    lines.append(
        f"check: {len(found)} references: {counts[PASS]} kept, {counts[WARN]} in doubt, "
        f"{counts[FAIL]} failed"
    )
    return "\n".join(lines) + "\n"


def write(collection: Collection, path: Path, lower: float, upper: float, replace: bool) -> int:
    """References from the present state: the study's good cells; returns how many.

    ReferencesExistError where the file is there and is not to be replaced.
    """
    if path.exists() and not replace:
        raise ReferencesExistError(
            f"{path} is there already: remove it, or add --config replace=true"
        )
    rows = [
        row
        for row in coverage(collection).rows
        if row["status"] == "ok" and row["gflops"] is not None
    ]
    head = [
        "# Rates that cells have to keep, in GFLOP/s: `snakemake --cores 1 check` fails when one",
        "# leaves its band. lower and upper are shares of the value, null for no limit; `select`",
        "# may stand in place of `cell`, and `machine` may be a pattern: see docs/changes.md.",
    ]
    lines = [
        f"- {{machine: {json.dumps(row['machine'])}, "
        f"cell: {json.dumps(row['backend'] + '/' + row['cell'])}, "
        f"value: {row['gflops']:.5g}, lower: {lower:g}, upper: {upper:g}}}"
        for row in sorted(rows, key=lambda row: row.key)
    ]
    write_atomically(path, ("\n".join([*head, *(lines or ["[]"])]) + "\n").encode())
    return len(rows)
