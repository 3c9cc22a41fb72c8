"""Two sets of cells against each other: only what both measured, cell by cell, with intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from gemmgrid.report.rows import Row, reading_order
from gemmgrid.report.statistics import Interval, median, ratio, verdict

VERDICTS = ("faster", "slower", "same", "cannot tell")


@dataclass(frozen=True)
class Comparison:
    """One cell on two sides. ratio: how many times as fast the first is, None below two
    invocations on either side; plain: the ratio of the medians alone."""

    first: Row
    second: Row
    ratio: Interval | None
    plain: float

    @property
    def verdict(self) -> str:
        return verdict(self.ratio)


@dataclass(frozen=True)
class MachinePair:
    """Two machines over the cells that both measured with the same backend.

    only_first, only_second: how many measured cells the other one lacks.
    """

    first: str
    second: str
    comparisons: list[Comparison]
    only_first: int
    only_second: int

    @property
    def counts(self) -> Counter[str]:
        return Counter(comparison.verdict for comparison in self.comparisons)


def compare(first: Iterable[Row], second: Iterable[Row], on: Sequence[str]) -> list[Comparison]:
    """The measured cells of both sides that agree in the columns `on`, in reading order."""
    others = {tuple(row[column] for column in on): row for row in second if row.medians_s}
    found = []
    for row in sorted(first, key=reading_order):
        other = others.get(tuple(row[column] for column in on))
        if other is not None and row.medians_s:
            plain = median(other.medians_s) / median(row.medians_s)
            both = ratio(row.medians_s, other.medians_s)
            found.append(Comparison(row, other, both, plain))
    return found


def machine_pairs(cells: Sequence[Row]) -> list[MachinePair]:
    """All pairs of machines that share measured cells, the pair with most of them first."""
    by_machine: dict[str, list[Row]] = {}
    for row in cells:
        if row.medians_s:
            by_machine.setdefault(row["machine"], []).append(row)
    pairs = []
    for first, second in combinations(sorted(by_machine), 2):
        shared = compare(by_machine[first], by_machine[second], ("backend", "cell"))
        if shared:
            only_first = len(by_machine[first]) - len(shared)
            only_second = len(by_machine[second]) - len(shared)
            pairs.append(MachinePair(first, second, shared, only_first, only_second))
    return sorted(pairs, key=lambda pair: -len(pair.comparisons))
