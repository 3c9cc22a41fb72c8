"""The command `check`, for continuous integration: did each cell with a reference keep its rate?

A cell fails when the whole interval of its rate has left the band, when its latest run failed, and
when that run cannot be compared with the reference (another protocol, wrong threads). It is kept
where the whole interval lies in the band. Where the interval is missing, is over one round, is of
a state that is not the machine's best, or reaches further from the rate than the band from its
value, nothing can be told: the cell is undecided, which fails too. A rate outside whose narrow
interval still reaches into the band is a warning, which does not fail.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from gemmgrid.records.files import write_atomically
from gemmgrid.records.run import UNRANKED
from gemmgrid.records.statistics import interval
from gemmgrid.records.text import count, number
from gemmgrid.report.read.collect import Collection
from gemmgrid.report.read.coverage import coverage
from gemmgrid.report.read.rows import Row
from gemmgrid.report.statistics import LEAST_ROUNDS
from gemmgrid.report.terminal.text import paint, wants_colour

PASS, WARN, UNDECIDED, FAIL = "pass", "warn", "undecided", "fail"
_COLOURS = {PASS: "green", WARN: "yellow", UNDECIDED: "red", FAIL: "red"}
_ENDINGS = ((FAIL, 1), (UNDECIDED, 3))
"""Exit statuses, the gravest first; 2 is that of wrong arguments."""


class ReferencesExistError(FileExistsError):
    """The file is there already; the text says how to replace it."""


@dataclass(frozen=True)
class Judgement:
    """One reference's outcome: pass, warn, undecided or fail, of which cell, and why."""

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
    if not row.comparable:
        doubts = ", ".join(flag for flag in row.flags if flag in UNRANKED)
        return Judgement(FAIL, place, f"{doubts}: {row['threads_seen']} threads worked")
    if row.protocol != wanted.get("protocol", row.protocol):
        told = f"measured by protocol {row.protocol}, the reference by {wanted['protocol']}"
        return Judgement(FAIL, place, f"{told}: write the references anew ({wanted['entry']})")
    if "other-state" in row.flags:
        told = "it met only states of the CPUs that are not the best this machine has shown"
        return Judgement(UNDECIDED, place, f"{told}: measure it again")
    if row.rounds < LEAST_ROUNDS:
        rounds = count("round", row.rounds)
        told = f"{rounds}, and {LEAST_ROUNDS} are needed for a verdict: {row.more_rounds}"
        return Judgement(UNDECIDED, place, told)
    low, high = band(wanted)
    rate, value = row["gflops"], wanted["value"]
    # The latest run's own interval: in one that holds the spread between runs, a fall to a tenth
    # would be a spread, and undecided. What runs differ by without a cause is what the band is for.
    own = interval(row.times_s)
    known = own is not None
    least, most = (rate * own.value / own.high, rate * own.value / own.low) if own else (0.0, inf)
    told = (
        f"{number(rate)} GFLOP/s, {rate / value - 1:+.1%} of {number(value)} "
        f"(allowed: {_limit(low)} – {_limit(high)})"
    )
    if most < low or least > high:
        return Judgement(FAIL, place, told)
    if low <= least and most <= high:
        return Judgement(PASS, place, told)
    if (low and rate - least > value - low) or most - rate > high - value:
        wide = f"{number(least)} – {number(most)}, is wider than that" if known else "not known"
        return Judgement(UNDECIDED, place, f"{told}: its interval is {wide}")
    return Judgement(PASS if low <= rate <= high else WARN, place, told)


def band(wanted: Mapping[str, Any]) -> tuple[float, float]:
    """Lowest and highest GFLOP/s that a reference allows."""
    value, lower, upper = wanted["value"], wanted["lower"], wanted["upper"]
    return (
        0.0 if lower is None else value * (1 + lower),
        float("inf") if upper is None else value * (1 + upper),
    )


def _limit(value: float) -> str:
    return "any" if value in (0.0, float("inf")) else number(value)


def exit_status(found: list[Judgement]) -> int:
    """0 where no cell failed or is undecided."""
    outcomes = {one.outcome for one in found}
    return next((status for outcome, status in _ENDINGS if outcome in outcomes), 0)


def text(found: list[Judgement]) -> str:
    """What `check` prints: what failed, what is undecided or close, and the counts."""
    colour = wants_colour()
    shown = [one for one in found if one.outcome != PASS]
    shown.sort(key=lambda one: ((FAIL, UNDECIDED, WARN).index(one.outcome), one.place))
    lines = [f"{paint(one.outcome, _COLOURS[one.outcome], colour)}  {one.place}" for one in shown]
    lines = [f"{line}\n      {one.told}" for line, one in zip(lines, shown, strict=True)]
    counts = Counter(one.outcome for one in found)
    told = (
        f"check: {count('reference', len(found))}: {counts[PASS]} kept, {counts[WARN]} in doubt, "
    )
    if counts[UNDECIDED]:
        told += f"{counts[UNDECIDED]} undecided, "
    lines.append(f"{told}{counts[FAIL]} failed")
    if counts[UNDECIDED]:
        lines.append("undecided: measure again in more rounds, or widen the band")
    return "\n".join(lines) + "\n"


def write(collection: Collection, path: Path, lower: float, upper: float, replace: bool) -> str:
    """References from the present state: the study's good cells; returns what was done, in words.

    Cells that never met the machine's best state are left out: they would judge nothing.
    ReferencesExistError where the file is there and is not to be replaced.
    """
    if path.exists() and not replace:
        raise ReferencesExistError(
            f"{path} is there already: remove it, or add --config replace=true"
        )
    good = [row for row in coverage(collection).rows if row.comparable]
    rows = [row for row in good if "other-state" not in row.flags]
    head = [
        "# Rates that cells have to keep, in GFLOP/s: `snakemake --cores 1 check` fails when one",
        "# leaves its band. lower and upper are shares of the value, null for no limit; `select`",
        "# may stand in place of `cell`, and `machine` may be a pattern: see docs/changes.md.",
    ]
    lines = [
        f"- {{machine: {json.dumps(row['machine'])}, "
        f"cell: {json.dumps(row['backend'] + '/' + row['cell'])}, "
        f"value: {row['gflops']:.5g}, lower: {lower:g}, upper: {upper:g}, "
        f"protocol: {row.protocol}}}"
        for row in sorted(rows, key=lambda row: row.key)
    ]
    write_atomically(path, ("\n".join([*head, *(lines or ["[]"])]) + "\n").encode())
    told = f"{path}: {count('reference', len(rows))} written"
    if len(rows) < len(good):
        apart = count("cell", len(good) - len(rows))
        told += f"; {apart} left out, which met no process in the machine's best state"
    return told
