"""What results of the same cells, measured again and again, say: spread, coverage, A/A verdicts.

Everything is judged by the report's own code: `rows.from_run`, `compare.Comparison`, `judge`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import log
from statistics import fmean, median, stdev

from gemmgrid.records.cell import Cell
from gemmgrid.records.text import count
from gemmgrid.report.judge.compare import Comparison, judge
from gemmgrid.report.read.rows import Row, over_runs

Point = tuple[str, str]
"""A backend and a cell's name."""
Results = Mapping[Point, tuple[Row, ...]]
"""Of one repetition: each cell's results, one or two (the same cell under two names, in turns)."""

WITHIN, MIDDLE = 0.05, 0.03
"""Any two results of a cell in one state lie within the first, those of the median cell within the
second."""
COVERED = 0.93
"""The share of intervals over five rounds that is to hold the grand median."""
FALSE = 0.05
"""The share of comparisons of a cell with itself that may say faster or slower."""


@dataclass(frozen=True)
class Repeated:
    """One cell's results over all repetitions, of its best state; `apart` counts the others.

    grand: the median over all rounds of all results, in seconds per call.
    """

    rows: tuple[Row, ...]
    apart: int

    @property
    def grand(self) -> float:
        return median(time for row in self.rows for time in row.times_s)

    @property
    def spread(self) -> float:
        """The largest result over the smallest, less 1."""
        times = [row["time_s"] for row in self.rows]
        return float(max(times) / min(times) - 1)

    @property
    def between(self) -> float | None:
        """The relative standard deviation of the results; None below three."""
        logs = [log(row["time_s"]) for row in self.rows]
        return stdev(logs) if len(logs) > 2 else None

    def held(self, over: bool = False) -> list[tuple[int, bool]]:
        """Of each result its rounds, and whether its interval holds the grand median; over: as the
        report shows each result with those before it as further runs of its context."""
        known = enumerate(self.rows, start=1)
        found = [over_runs(row, self.rows[:at]) if over else row for at, row in known]
        inside = []
        for row in found:
            rate = row["gflops"] * row["time_s"] / self.grand
            low, high = row["gflops_low"], row["gflops_high"]
            inside.append((row.rounds, low is not None and low <= rate <= high))
        return inside


def repeated(repetitions: Sequence[Results], point: Point) -> Repeated:
    rows = [row for one in repetitions for row in one.get(point, ()) if row.measured]
    best = tuple(row for row in rows if "other-state" not in row.flags)
    return Repeated(best, len(rows) - len(best))


def unpaired(repetitions: Sequence[Results]) -> Counter[str]:
    """Verdicts of every repetition against every later one, all cells of a pair as one family."""
    found: Counter[str] = Counter()
    for first, second in combinations(repetitions, 2):
        family = [
            Comparison(first[point][0], second[point][0])
            for point in first
            if first[point] and second.get(point)
        ]
        found += _verdicts(family)
    return found


def paired(repetitions: Sequence[Results]) -> Counter[str]:
    """Verdicts of the two results of each cell within a repetition, all its cells as one family."""
    found: Counter[str] = Counter()
    for one in repetitions:
        family = [Comparison(*rows) for rows in one.values() if len(rows) == 2]
        found += _verdicts(comparison for comparison in family if comparison.paired)
    return found


def _verdicts(family: Iterable[Comparison]) -> Counter[str]:
    listed = [one for one in family if one.first.comparable and one.second.comparable]
    judge(listed)
    return Counter(one.verdict for one in listed)


def report(title: str, repetitions: Sequence[Results], cells: Sequence[Point]) -> Iterable[str]:
    """A line a cell, and the figures over all of them."""
    several = {point: repeated(repetitions, point) for point in cells}
    several = {point: one for point, one in several.items() if len(one.rows) > 1}
    if not several:
        yield f"{title}: no cell has two results, which say too little"
        return
    yield f"{title}, {len(repetitions)} repetitions of {len(cells)} cells"
    for (backend, name), one in several.items():
        rate = Cell.parse(name).flops / one.grand / 1e9
        held = [inside for _, inside in one.held()]
        apart = f"  {one.apart} in another state" if one.apart else ""
        yield (
            f"  {backend:<15} {name:<36} {rate:8.1f} GFLOP/s  spread {one.spread:6.1%}  "
            f"interval holds {sum(held)}/{len(held)}{apart}"
        )
    yield from _spreads(list(several.values()))
    yield from _coverage(list(several.values()))
    yield _false("two times, unpaired", unpaired(repetitions))
    yield _false("the same rounds, paired", paired(repetitions))


def _spreads(found: Sequence[Repeated]) -> Iterable[str]:
    spreads = sorted(one.spread for one in found)
    yield _met(
        f"any two results in one state, worst cell {spreads[-1]:.1%}",
        spreads[-1] <= WITHIN,
        f"≤ {WITHIN:.0%}",
    )
    yield _met(
        f"any two results in one state, median cell {median(spreads):.1%}",
        median(spreads) <= MIDDLE,
        f"≤ {MIDDLE:.0%}",
    )
    between = [sd for one in found if (sd := one.between) is not None]
    if between:
        yield (
            f"  standard deviation of a cell's results: median cell {median(between):.1%}, "
            f"worst {max(between):.1%}"
        )


def _coverage(found: Sequence[Repeated]) -> Iterable[str]:
    for over, words in ((False, "of one run"), (True, "over the runs until then")):
        held = [one for cell in found for one in cell.held(over)]
        share, by_rounds = fmean(one for _, one in held), []
        for rounds in sorted({number for number, _ in held}, reverse=True):
            own = [one for number, one in held if number == rounds]
            by_rounds.append(f"{fmean(own):.1%} of {len(own)} over {count('round', rounds)}")
        told = f" ({', '.join(by_rounds)})" if len(by_rounds) > 1 else ""
        text = f"intervals {words} that hold the grand median: {share:.1%} of {len(held)}{told}"
        yield _met(text, share >= COVERED, f"≥ {COVERED:.0%}")


def _false(words: str, verdicts: Counter[str]) -> str:
    wrong, compared = verdicts["faster"] + verdicts["slower"], verdicts.total()
    if not compared:
        return f"  A/A, {words}: nothing to compare"
    told = ", ".join(f"{number} {word}" for word, number in verdicts.most_common())
    text = f"A/A, {words}: {wrong / compared:.1%} false of {compared} ({told})"
    return _met(text, wrong <= FALSE * compared, f"≤ {FALSE:.0%}")


def _met(text: str, fine: bool, target: str) -> str:
    return f"  {text}; target {target}: {'met' if fine else 'MISSED'}"
