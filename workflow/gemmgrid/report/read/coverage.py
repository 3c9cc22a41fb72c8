"""How much of the current study is there: its cells by status, and what is still to do."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from gemmgrid.records.run import SETTLED
from gemmgrid.report.read.collect import Collection
from gemmgrid.report.read.rows import Row


@dataclass
class Coverage:
    """rows: the study's cells in the plan's order; counts: how many of each status."""

    rows: list[Row]
    counts: Counter[str]

    @property
    def incomplete(self) -> list[Row]:
        """The cells that another try could still settle."""
        return [row for row in self.rows if row["status"] not in SETTLED]

    @cached_property
    def several_machines(self) -> bool:
        return len({row["machine"] for row in self.rows}) > 1

    def place(self, row: Row) -> str:
        """The row's backend, with its machine where the study has several."""
        machine = f"{row['machine']}/" if self.several_machines else ""
        return f"{machine}{row['backend']}"

    @property
    def measured(self) -> int:
        return self.counts["ok"]


def coverage(collection: Collection) -> Coverage:
    """The study's coverage; without a plan, that of every cell found."""
    by_key = {row.key: row for row in collection.cells}
    if collection.plan is None:
        rows = collection.cells
    else:
        rows = [by_key[key] for key in dict.fromkeys(collection.planned)]
    return Coverage(rows, Counter(row["status"] for row in rows))


@dataclass
class Group:
    """Cells with one machine, backend and status whose reasons differ in numbers only."""

    machine: str
    backend: str
    status: str
    rows: list[Row]

    @property
    def reason(self) -> str:
        """The reason, or the first of several that are alike."""
        reasons = list(dict.fromkeys(reason_of(row) for row in self.rows))
        return reasons[0] if len(reasons) == 1 else f"{reasons[0]} (and {len(reasons) - 1} alike)"


def groups(rows: list[Row]) -> list[Group]:
    """The rows by status, machine, backend and reason, the largest group first."""
    grouped: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        alike = re.sub(r"\d+(\.\d+)?(e[+-]?\d+)?", "#", reason_of(row))
        grouped.setdefault((row["status"], row["machine"], row["backend"], alike), []).append(row)
    ordered = sorted(grouped.items(), key=lambda group: (-len(group[1]), group[0]))
    return [Group(key[1], key[2], key[0], members) for key, members in ordered]


def reason_of(row: Row) -> str:
    return row["reason"] or "no reason recorded"
