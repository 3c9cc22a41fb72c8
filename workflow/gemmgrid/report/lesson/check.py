"""The lesson's table against what was seen: each line with the cells that speak to it.

The lines are data (lesson.json): which cells a line is about, which routine it claims, and the
pattern by which a routine's name is recognised. A cell speaks for or against a line only with
evidence of its own; what a document says is kept apart as expected.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from gemmgrid.report.read.evidence import SEEN
from gemmgrid.report.read.fields import Fields
from gemmgrid.report.read.rows import Row, reading_order

FILE = Path(__file__).parent / "lesson.json"

AGREES, DISAGREES, OPEN = "agrees", "disagrees", "not known"
EXPECTED = {AGREES: "expected to agree", DISAGREES: "expected to disagree"}
PARTLY, NOT_SEEN = "agrees in part", "not seen here"


@dataclass
class Finding:
    """Cells of one machine, backend and dtype under which the same routine ran.

    verdict: agrees or disagrees where a routine was seen; the same as expected where a document
    names it; not known otherwise.
    """

    rows: list[Row]
    verdict: str

    @property
    def row(self) -> Row:
        return self.rows[0]


@dataclass
class Checked:
    """A line of the lesson's table, and what speaks to it."""

    line: dict[str, Any]
    findings: list[Finding] = field(default_factory=list)

    def count(self, *verdicts: str) -> int:
        """How many cells have one of these verdicts."""
        return sum(len(one.rows) for one in self.findings if one.verdict in verdicts)

    @property
    def verdict(self) -> str:
        """Of the cells that were seen; where there is none, what is expected; or not seen."""
        for for_it, against in ((AGREES, DISAGREES), (EXPECTED[AGREES], EXPECTED[DISAGREES])):
            agreeing, disagreeing = self.count(for_it), self.count(against)
            if agreeing and disagreeing:
                return PARTLY if for_it == AGREES else OPEN
            if agreeing or disagreeing:
                return for_it if agreeing else against
        return NOT_SEEN

    @property
    def seen(self) -> bool:
        return self.verdict in (AGREES, DISAGREES, PARTLY)

    def routines(self, *verdicts: str) -> list[str]:
        """The names that were seen, or are expected, under these verdicts."""
        found = [one.row["routine_seen"] for one in self.findings if one.verdict in verdicts]
        return list(dict.fromkeys(found))


@cache
def document() -> dict[str, Any]:
    """lesson.json: its lines, its claim about Python's share, and what else it gets wrong."""
    content: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return content


def system(machine: Mapping[str, Any] | None) -> str | None:
    """ "Linux" or "Darwin", from a machine.json; None where that does not tell."""
    fields = Fields(machine or {})
    kernel = (fields.text("kernel") or "").partition(" ")[0]
    if kernel in ("Linux", "Darwin"):
        return kernel
    return "Darwin" if (fields.text("os") or "").startswith("macOS") else None


def check(cells: Iterable[Row], machines: Mapping[str, dict[str, Any] | None]) -> list[Checked]:
    """Every line with the measured or looked-at cells that it is about, in reading order."""
    systems = {name: system(found) for name, found in machines.items()}
    told = [row for row in cells if row.evidence.status is not None or row.measured]
    told.sort(key=lambda row: (row["machine"], row["backend"], *reading_order(row)))
    return [_checked(line, told, systems) for line in document()["lines"]]


def expected(adapter: str | None, device: str | None, routine: str, dtype: str) -> str | None:
    """The routine that the lesson names for this call, or None where it names none: expectation,
    not evidence."""
    call = {"adapter": adapter, "device": device, "routine": routine, "dtype": dtype}
    for line in document()["lines"]:
        if all(value in line["match"][column] for column, value in call.items()):
            return str(line["claims"][dtype])
    return None


def verdict(line: Mapping[str, Any], row: Row) -> str:
    """What this cell says about the line."""
    names, mark = row["routine_seen"], row["routine_evidence"]
    if not names or mark not in (*SEEN, "documented"):
        return OPEN
    pattern = re.compile(line["pattern"][row["dtype"]], re.IGNORECASE)
    agreeing = any(pattern.fullmatch(name) for name in names.split(" + "))
    found = AGREES if agreeing else DISAGREES
    return found if mark in SEEN else EXPECTED[found]


def fits(line: Mapping[str, Any], row: Row, systems: Mapping[str, str | None]) -> bool:
    """Whether the line is about this cell."""
    return all(
        (systems.get(row["machine"]) if column == "system" else row[column]) in allowed
        for column, allowed in line["match"].items()
    )


def _checked(line: dict[str, Any], rows: Sequence[Row], systems: dict[str, str | None]) -> Checked:
    groups: dict[tuple[Any, ...], Finding] = {}
    for row in rows:
        if fits(line, row, systems):
            columns = ("machine", "backend", "dtype", "expression", "routine_seen")
            key = (*(row[column] for column in columns), row["routine_evidence"])
            groups.setdefault(key, Finding([], verdict(line, row))).rows.append(row)
    return Checked(line, list(groups.values()))
