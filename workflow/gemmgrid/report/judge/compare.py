"""Two sets of cells against each other: only what both measured, cell by cell, with verdicts.

One machinery for three questions: what changed since the context was another (before and after),
how two machines differ, how two backends differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any

from gemmgrid.records import context
from gemmgrid.report.judge import verdicts
from gemmgrid.report.judge.statistics import Contrast, Interval, contrast, median
from gemmgrid.report.judge.verdicts import VERDICTS
from gemmgrid.report.read.rows import Row, reading_order

__all__ = [
    "VERDICTS",
    "Comparison",
    "Pair",
    "Summary",
    "backend_pairs",
    "before_and_after",
    "compare",
    "machine_pairs",
    "summaries",
]

BEFORE_AFTER, MACHINES, BACKENDS = "before-after", "machines", "backends"
PLACES, MOMENTS = "places", "moments"
JOINED_ON = {
    BEFORE_AFTER: ("machine", "backend", "cell"),
    MOMENTS: ("machine", "backend", "cell"),
    MACHINES: ("backend", "cell"),
    BACKENDS: ("machine", "cell"),
    PLACES: ("cell",),
}
"""Kinds of comparison, and the columns in which two rows agree to be compared."""


@dataclass
class Comparison:
    """One cell on two sides.

    contrast: None below two invocations on either side; plain: how many times as fast the first is
    by the medians alone; share: the adjusted p-value among all cells of the same comparison.
    """

    first: Row
    second: Row
    contrast: Contrast | None
    plain: float
    share: float = 1.0

    @cached_property
    def ratio(self) -> Interval | None:
        """How many times as fast the first is, with its 95 % interval over processes."""
        return self.contrast.interval() if self.contrast else None

    @property
    def processes(self) -> tuple[int, int]:
        return len(self.first.medians_s), len(self.second.medians_s)

    @cached_property
    def verdict(self) -> str:
        return verdicts.verdict(self.contrast, min(self.processes), self.share)

    @property
    def needed(self) -> int | None:
        """How many more processes each side needs for a verdict; None where it has one."""
        if self.verdict not in ("cannot tell", "insufficient"):
            return None
        return verdicts.processes_needed(self.contrast, self.processes)

    @cached_property
    def changes(self) -> dict[str, tuple[Any, Any]]:
        """What differs between the contexts: key → (on the second side, on the first)."""
        return context.changes(self.second.context, self.first.context)


@dataclass
class Pair:
    """Two sides over the cells that both measured; names as a reader knows them.

    only_first, only_second: how many measured cells the other side lacks.
    """

    kind: str
    first: str
    second: str
    comparisons: list[Comparison] = field(default_factory=list)
    only_first: int = 0
    only_second: int = 0

    @property
    def counts(self) -> Counter[str]:
        return Counter(comparison.verdict for comparison in self.comparisons)

    @cached_property
    def common_changes(self) -> dict[str, tuple[Any, Any]]:
        """The changes that every one of the cells has."""
        if not self.comparisons:
            return {}
        first, *others = (one.changes for one in self.comparisons)
        return {
            key: pair
            for key, pair in first.items()
            if all(other.get(key) == pair for other in others)
        }


@dataclass(frozen=True)
class Summary:
    """A group of comparisons in figures: the overall ratio is a geometric mean over these cells,
    its interval over processes; time is the ratio of the cells' summed times."""

    backend: str
    product: str
    count: int
    overall: Interval | None
    least: float
    middle: float
    most: float
    time: float
    counts: Counter[str]


def compare(first: Iterable[Row], second: Iterable[Row], on: Sequence[str]) -> list[Comparison]:
    """The measured cells of both sides that agree in the columns `on`, in reading order."""
    others = {tuple(row[column] for column in on): row for row in second if row.medians_s}
    found = []
    for row in sorted(first, key=reading_order):
        other = others.get(tuple(row[column] for column in on))
        if other is not None and row.medians_s:
            found.append(_comparison(row, other))
    judge(found)
    return found


def judge(family: Sequence[Comparison]) -> None:
    """Give each comparison of a family its adjusted p-value; those without a test take no part."""
    tested = [
        one
        for one in family
        if one.contrast is not None and min(one.processes) >= verdicts.LEAST_PROCESSES
    ]
    p_values = [verdicts.p_value(one.contrast) for one in tested if one.contrast]
    for one, share in zip(tested, verdicts.adjusted(p_values), strict=True):
        one.share = share


def pair(kind: str, first: str, second: str, left: Sequence[Row], right: Sequence[Row]) -> Pair:
    """One comparison of two sides, whole."""
    shared = compare(left, right, JOINED_ON[kind])
    only = [sum(bool(row.medians_s) for row in side) - len(shared) for side in (left, right)]
    return Pair(kind, first, second, shared, *only)


def machine_pairs(cells: Sequence[Row]) -> list[Pair]:
    """All pairs of machines that share measured cells, the pair with most of them first."""
    return _pairs(MACHINES, "machine", cells)


def backend_pairs(cells: Sequence[Row]) -> list[Pair]:
    """All pairs of backends that share measured cells, the pair with most of them first."""
    return _pairs(BACKENDS, "backend", cells)


def before_and_after(runs: Sequence[Row]) -> list[Pair]:
    """Per machine: each cell's latest good run against its latest one in another context.

    `runs` has each cell's history oldest first. The first side is the later one.
    """
    histories: dict[tuple[str, str, str], list[Row]] = {}
    for row in runs:
        if row.medians_s:
            histories.setdefault(row.key, []).append(row)
    by_machine: dict[str, list[Comparison]] = {}
    for (machine, _, _), history in sorted(histories.items()):
        after, *earlier = reversed(history)
        before = next((one for one in earlier if context.changes(one.context, after.context)), None)
        if before is not None:
            by_machine.setdefault(machine, []).append(_comparison(after, before))
    pairs = []
    for machine, found in by_machine.items():
        judge(found)
        found.sort(key=lambda one: reading_order(one.first))
        alone = sum(key[0] == machine for key in histories) - len(found)
        pairs.append(
            Pair(BEFORE_AFTER, f"{machine} after", f"{machine} before", found, only_first=alone)
        )
    return pairs


def summaries(comparisons: Iterable[Comparison]) -> list[Summary]:
    """By backend, routine and dtype; where the backends are what is compared, the first one's."""
    grouped: dict[tuple[str, str, str], list[Comparison]] = {}
    for one in comparisons:
        key = (one.first["backend"], one.first["routine"], one.first["dtype"])
        grouped.setdefault(key, []).append(one)
    return [
        _summary(backend, f"{routine} {dtype}", members)
        for (backend, routine, dtype), members in sorted(grouped.items())
    ]


def _summary(backend: str, product: str, members: Sequence[Comparison]) -> Summary:
    ratios = [one.plain for one in members]
    contrasts = [one.contrast for one in members if one.contrast is not None]
    overall = verdicts.together(contrasts) if len(contrasts) == len(members) else None
    times = [sum(median(side(one).medians_s) for one in members) for side in (_first, _second)]
    return Summary(
        backend=backend,
        product=product,
        count=len(members),
        overall=overall.interval() if overall else None,
        least=min(ratios),
        middle=median(ratios),
        most=max(ratios),
        time=times[1] / times[0],
        counts=Counter(one.verdict for one in members),
    )


def _first(one: Comparison) -> Row:
    return one.first


def _second(one: Comparison) -> Row:
    return one.second


def _comparison(first: Row, second: Row) -> Comparison:
    plain = median(second.medians_s) / median(first.medians_s)
    return Comparison(first, second, contrast(first.medians_s, second.medians_s), plain)


def _pairs(kind: str, axis: str, cells: Sequence[Row]) -> list[Pair]:
    by_name: dict[str, list[Row]] = {}
    for row in cells:
        if row.medians_s:
            by_name.setdefault(row[axis], []).append(row)
    pairs = [
        pair(kind, first, second, by_name[first], by_name[second])
        for first, second in combinations(sorted(by_name), 2)
    ]
    return sorted((one for one in pairs if one.comparisons), key=lambda one: -len(one.comparisons))
