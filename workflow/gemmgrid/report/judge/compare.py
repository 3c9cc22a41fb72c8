"""Two sets of cells against each other: only what both measured, cell by cell, with verdicts.

One machinery for three questions: what changed since the context was another (before and after),
how two machines differ, how two backends differ. Runs of different protocols, and runs whose
threads are not those that were asked for, are never compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, pairwise
from typing import Any

from gemmgrid.records import context
from gemmgrid.records.statistics import Interval
from gemmgrid.report.judge import verdicts
from gemmgrid.report.read.fields import clean
from gemmgrid.report.read.rows import Row, over_runs, reading_order
from gemmgrid.report.statistics import LEAST_ROUNDS, Estimate, median, paired, unpaired

BEFORE_AFTER, MACHINES, BACKENDS = "before-after", "machines", "backends"
PLACES, MOMENTS = "places", "moments"
_CELL = ("routine", "dtype", "m", "n", "k", "threads", "options")
AXES = ("dtype", "threads", "options")
"""Axes of a cell by which two sides may differ, on one machine and backend."""
JOINED_ON = {
    BEFORE_AFTER: ("machine", "backend", "cell"),
    MOMENTS: ("machine", "backend", "cell"),
    MACHINES: ("backend", "cell"),
    BACKENDS: ("machine", "cell"),
    PLACES: ("cell",),
    **{
        axis: ("machine", "backend", *(column for column in _CELL if column != axis))
        for axis in AXES
    },
}
"""Kinds of comparison, and the columns in which two rows agree to be compared."""
MOST_CHANGES = 20
LONGEST_CHANGE = 160

Changes = dict[str, tuple[Any, Any]]
"""What differs between two contexts: key → (on the second side, on the first)."""


@dataclass
class Comparison:
    """One cell on two sides.

    paired: whether both were measured in the same rounds, so that the ratios within them count;
    contrast: how many times as fast the first is, None below two rounds or processes on a side;
    share: the adjusted p-value among all cells of the same comparison; level: the p-value below
    which this cell would be a discovery there.
    """

    first: Row
    second: Row
    paired: bool = field(init=False)
    contrast: Estimate | None = field(init=False)
    share: float = 1.0
    level: float = verdicts.FALSE_DISCOVERIES

    def __post_init__(self) -> None:
        self.paired = same_rounds(self.first, self.second)
        if self.paired:
            self.contrast = paired(self.first.rounds_s, self.second.rounds_s)
        else:
            self.contrast = unpaired(self.first.estimate, self.second.estimate)

    @property
    def sides(self) -> tuple[Row, Row]:
        return self.first, self.second

    @property
    def pairing(self) -> str:
        """How the two were compared, in a word."""
        return "paired" if self.paired else "unpaired"

    @property
    def ratio(self) -> float:
        """How many times as fast the first is."""
        if self.contrast:
            return self.contrast.interval().value
        return float(self.second["time_s"] / self.first["time_s"])

    @cached_property
    def interval(self) -> Interval | None:
        """The ratio with its 95 % interval over rounds, or over processes of one round."""
        return self.contrast.interval() if self.contrast else None

    @property
    def rounds(self) -> int:
        """That both have where they are paired, else on the side that has fewer."""
        if self.paired:
            return len(self.first.rounds_s.keys() & self.second.rounds_s.keys())
        return min(self.first.rounds, self.second.rounds)

    @property
    def same_state(self) -> bool:
        """Whether both ran in the best placement of their machine's CPUs, or in the same other."""
        flagged = ["other-state" in row.flags for row in self.sides]
        alike = self.first["state"] == self.second["state"]
        return not any(flagged) or (all(flagged) and alike)

    @property
    def tested(self) -> bool:
        return self.contrast is not None and self.rounds >= LEAST_ROUNDS and self.same_state

    @cached_property
    def verdict(self) -> str:
        if not self.same_state:
            return "other state"
        return verdicts.verdict(self.contrast, self.rounds, self.share)

    @property
    def needed(self) -> int | None:
        """How many rounds each side needs for a verdict; None where it has one or none would do."""
        if self.verdict not in ("cannot tell", "insufficient"):
            return None
        return verdicts.rounds_needed(self.contrast, self.rounds, self.level)

    @property
    def advice(self) -> str:
        """What a cell without a verdict needs: `needs 12 rounds`."""
        if not self.same_state:
            return "measure again: a side met only a state that is not the machine's best"
        return f"needs {self.needed} rounds" if self.needed else ""

    @cached_property
    def changes(self) -> Changes:
        """What differs between the contexts."""
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

    def __post_init__(self) -> None:
        judge(self.comparisons)

    @property
    def counts(self) -> Counter[str]:
        return Counter(comparison.verdict for comparison in self.comparisons)

    def changes(self, one: Comparison) -> Changes:
        """What differs between the contexts; nothing is told of backends, which differ in most."""
        return {} if self.kind == BACKENDS else one.changes

    @cached_property
    def common_changes(self) -> Changes:
        """The changes that every one of the cells has."""
        if not self.comparisons:
            return {}
        first, *others = map(self.changes, self.comparisons)
        return {
            key: pair
            for key, pair in first.items()
            if all(other.get(key) == pair for other in others)
        }

    def own_changes(self, one: Comparison) -> Changes:
        """The changes of this cell that not all the others have too."""
        common = self.common_changes
        return {key: change for key, change in self.changes(one).items() if key not in common}

    @property
    def firming(self) -> list[str]:
        """What measures the first of the cells with too few rounds in enough of them: both sides
        in one command where one machine has both, so that they are paired."""
        one = next((one for one in self.comparisons if one.verdict == "insufficient"), None)
        if one is None:
            return []
        split = [(row.more_rounds or "").rpartition(" -f ") for row in one.sides]
        if one.first["machine"] == one.second["machine"] and split[0][0] == split[1][0]:
            files = dict.fromkeys(file for _, _, file in split)
            return [" ".join([f"{split[0][0]} -f", *files])]
        few = [row for row in one.sides if row.rounds < LEAST_ROUNDS]
        return [row.more_rounds for row in few if row.more_rounds]


def same_rounds(first: Row, second: Row) -> bool:
    """Whether the two were measured together: on one host, round by round.

    The records show it by the times at which their processes began: of every round that both have,
    all of both sides' began before any of the next one. Rounds of two runs that followed one
    another, or of a cell that was measured alone later, do not take turns.
    """
    hosts = {(row["host_id"], row["machine"], row["slurm_node"]) for row in (first, second)}
    shared = sorted(first.began.keys() & second.began.keys())
    if len(hosts) > 1 or len(shared) < 2:
        return False
    both = [(first.began[number], second.began[number]) for number in shared]
    spans = [(min(start for start, _ in one), max(end for _, end in one)) for one in both]
    return all(end < start for (_, end), (start, _) in pairwise(spans))


def told(changes: Changes, most: int = MOST_CHANGES) -> list[str]:
    """Changes of a context in words, one a line, the rest counted."""
    lines = [clean(context.describe(key, pair), LONGEST_CHANGE) for key, pair in changes.items()]
    if len(lines) > most:
        return [*lines[:most], f"… and {len(lines) - most} more"]
    return lines


@dataclass(frozen=True)
class Summary:
    """A group of comparisons in figures: the overall ratio is a geometric mean over these cells,
    its interval over rounds; time is the ratio of the cells' summed times."""

    backend: str
    product: str
    count: int
    overall: Interval | None
    least: float
    middle: float
    most: float
    time: float
    counts: Counter[str]


def judge(family: Sequence[Comparison]) -> None:
    """Give each comparison of a family its adjusted p-value; those without a test take no part."""
    tested = [one for one in family if one.tested]
    p_values = [verdicts.p_value(one.contrast) for one in tested if one.contrast]
    shares = verdicts.adjusted(p_values)
    level = verdicts.level(shares)
    for one, share in zip(tested, shares, strict=True):
        one.share, one.level = share, level


def pair(kind: str, first: str, second: str, left: Iterable[Row], right: Iterable[Row]) -> Pair:
    """One comparison of two sides: the cells that agree in JOINED_ON, in reading order."""
    on = JOINED_ON[kind]
    sides = [
        {(*(row[column] for column in on), row.protocol): row for row in side if row.comparable}
        for side in (left, right)
    ]
    shared = [
        Comparison(row, sides[1][key])
        for key, row in sorted(sides[0].items(), key=lambda entry: reading_order(entry[1]))
        if key in sides[1]
    ]
    return Pair(kind, first, second, shared, *(len(side) - len(shared) for side in sides))


def machine_pairs(cells: Sequence[Row]) -> list[Pair]:
    """All pairs of machines that share measured cells, the pair with most of them first."""
    return _pairs(MACHINES, "machine", cells)


def backend_pairs(cells: Sequence[Row]) -> list[Pair]:
    """All pairs of backends that share measured cells, the pair with most of them first."""
    return _pairs(BACKENDS, "backend", cells)


def before_and_after(runs: Sequence[Row]) -> list[Pair]:
    """Per machine: each cell's latest run, if good, against its latest good one in another context.

    `runs` has each cell's history oldest first. The first side is the later one.
    """
    histories: dict[tuple[str, str, str], list[Row]] = {}
    for row in runs:
        histories.setdefault(row.key, []).append(row)
    found: dict[str, list[Comparison]] = {}
    alone: Counter[str] = Counter()
    for (machine, _, _), history in histories.items():
        *earlier, after = history
        if not after.comparable:
            continue
        fitting = (
            one for one in reversed(earlier) if one.comparable and one.protocol == after.protocol
        )
        before = next((one for one in fitting if context.changes(one.context, after.context)), None)
        if before is None:
            alone[machine] += 1
        else:
            one = Comparison(over_runs(after, history), over_runs(before, history))
            found.setdefault(machine, []).append(one)
    for members in found.values():
        members.sort(key=lambda one: reading_order(one.first))
    return [
        Pair(BEFORE_AFTER, f"{name} after", f"{name} before", found[name], only_first=alone[name])
        for name in sorted(found)
    ]


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
    ratios = [one.ratio for one in members]
    contrasts = [one.contrast for one in members if one.contrast is not None]
    overall = verdicts.together(contrasts) if len(contrasts) == len(members) else None
    first, second = (
        sum(getattr(one, side)["time_s"] for one in members) for side in ("first", "second")
    )
    return Summary(
        backend=backend,
        product=product,
        count=len(members),
        overall=overall.interval() if overall else None,
        least=min(ratios),
        middle=median(ratios),
        most=max(ratios),
        time=second / first,
        counts=Counter(one.verdict for one in members),
    )


def _pairs(kind: str, axis: str, cells: Sequence[Row]) -> list[Pair]:
    by_name: dict[str, list[Row]] = {}
    for row in cells:
        if row.comparable:
            by_name.setdefault(row[axis], []).append(row)
    pairs = [
        pair(kind, first, second, by_name[first], by_name[second])
        for first, second in combinations(sorted(by_name), 2)
    ]
    return sorted((one for one in pairs if one.comparisons), key=lambda one: -len(one.comparisons))
