"""What was found, in a sentence a question: which backend is fastest for what, and why not others.

A question is one cell on one machine: of each routine, dtype, options, size class and number of
threads, the shape that most backends measured (the largest of those). Cells whose flags say that
something else was measured than asked stand apart. "Slower" and "tie" are verdicts of
`judge.verdicts`; where there are too few rounds for one, rates are ranked and nothing else is said.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from gemmgrid.records.run import UNRANKED
from gemmgrid.records.text import count, number
from gemmgrid.report.judge.compare import Comparison, judge
from gemmgrid.report.read.evidence import SEEN
from gemmgrid.report.read.rows import Row
from gemmgrid.report.statistics import LEAST_ROUNDS

DOUBTFUL = UNRANKED | {
    *("loaded", "steal", "quota", "throttled", "battery", "shared-node", "short-samples"),
    "other-state",
}
"""Flags with which a cell is not ranked among cells that lack them."""
CLASSES = (("small", 256), ("medium", 2048), ("large", None))
"""Size classes by the side of a square product with as many multiplications, or of a square with
as many elements: up to 256, up to 2048, above."""
NEAR = 0.9
"""Without a verdict, rates above this share of the best are listed beside it, without a ratio."""
FEW = 0.75
"""Above this share of the best, a difference is told in per cent."""
HEADLINES = 3
"""Answers that a terminal shows."""
_KERNELS = (
    (r"mkl_blas_def_\w*_zen", "MKL’s generic Zen kernel"),
    (r"mkl_blas_def_", "MKL’s generic kernel"),
    (r"mkl_blas_(avx512|avx2|avx)_", "MKL’s {0} kernel"),
    (r"ynn::", "a kernel of YNNPACK"),
    (r"Eigen::", "a kernel of Eigen"),
    (r"_(SKYLAKEX|HASWELL|ZEN|COOPERLAKE|SAPPHIRERAPIDS|PRESCOTT)\b", "OpenBLAS’s {0} kernel"),
)
"""How kernels' names are read; others are told as they are."""


@dataclass(frozen=True)
class Ranked:
    """A cell in an answer. share: of the best rate; verdict: None of the best itself."""

    row: Row
    share: float
    verdict: str | None
    reason: str | None

    @property
    def slower(self) -> bool:
        """Whether it is surely slower than the best."""
        return self.verdict == "slower"


@dataclass
class Answer:
    """One question: what was asked, who ranks how, and what stands apart with its flags."""

    machine: str
    topic: str
    rows: Sequence[Row]
    ranked: list[Ranked] = field(default_factory=list)
    apart: list[Row] = field(default_factory=list)
    common: list[str] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)
    name: Callable[[Row], str] = lambda row: str(row["backend"])

    def __post_init__(self) -> None:
        able = [row for row in self.rows if row.measured]
        doubts = [DOUBTFUL.intersection(row.flags) for row in able]
        everywhere = frozenset.intersection(*doubts) - UNRANKED if doubts else frozenset()
        self.common = sorted(everywhere)
        doubted = [bool(found - everywhere) for found in doubts]
        self.apart = _fastest(row for row, out in zip(able, doubted, strict=True) if out)
        fair = _fastest(row for row, out in zip(able, doubted, strict=True) if not out)
        self.comparisons = [Comparison(row, fair[0]) for row in fair[1:]]
        self.fair = fair

    def rank(self) -> None:
        """Fill `ranked`, once the comparisons of all answers are judged as one family."""
        if self.fair:
            best = self.fair[0]
            self.ranked = [Ranked(best, 1.0, None, None)]
            self.ranked += [
                Ranked(one.first, one.first["gflops"] / best["gflops"], one.verdict, why(one))
                for one in self.comparisons
            ]

    @property
    def firm(self) -> bool:
        """Whether every rate stands on enough rounds for verdicts."""
        return all(one.row.rounds >= LEAST_ROUNDS for one in self.ranked)

    @property
    def sentence(self) -> str:
        """The finding in words, without the topic."""
        if not self.ranked:
            return f"no rate to rank{self._apart()}."
        beside, behind = self._parts()
        told = f"{_listed(self._rate(one) for one in beside)} GFLOP/s"
        if len(beside) > 1 and all(one.verdict == "same" for one in beside[1:]):
            told += ", a tie"
        elif any(one.verdict == "cannot tell" for one in beside):
            told += ", not told apart"
        reasons: dict[str | None, list[str]] = {}
        for one in behind:
            text = f"{self._rate(one)} ({_times(one)})"
            reasons.setdefault(one.reason, []).append(text)
        for reason, texts in reasons.items():
            told += f"; {_listed(texts)}" + (f": {reason}" if reason else "")
        if len(self.ranked) == 1:
            told += ", nothing to rank it against"
        if not self.firm:
            least = min(one.row.rounds for one in self.ranked)
            told += f"; {least} round{'s' if least > 1 else ''}: not firm"
        if self.common:
            told += f"; all {', '.join(self.common)}"
        return told + self._apart() + "."

    def _parts(self) -> tuple[list[Ranked], list[Ranked]]:
        """Those beside the best, and those behind it."""
        behind = [
            one
            for one in self.ranked[1:]
            if one.slower or (one.verdict not in ("same", "cannot tell") and one.share < NEAR)
        ]
        return [one for one in self.ranked if one not in behind], behind

    def _rate(self, one: Ranked) -> str:
        return f"{self.name(one.row)} {number(one.row['gflops'], 3)}"

    def _apart(self) -> str:
        if not self.apart:
            return ""
        told = (
            f"{self.name(row)} {number(row['gflops'], 3)} "
            f"({', '.join(sorted(DOUBTFUL.intersection(row.flags)))})"
            for row in self.apart
        )
        return f"; apart stand {_listed(told)}"


def answers(cells: Iterable[Row]) -> list[Answer]:
    """An answer a question, those with most work first; machines are never mixed."""
    by_question: dict[tuple[Any, ...], dict[tuple[Any, ...], list[Row]]] = {}
    for row in cells:
        if row["apart_from"] is None and row["status"] != "excluded":
            key = (*(row[x] for x in ("machine", "routine", "dtype", "options", "threads")),)
            shapes = by_question.setdefault((*key, size_class(row)), {})
            shapes.setdefault((row["m"], row["n"], row["k"]), []).append(row)
    chosen = [
        (key[0], max(shapes.values(), key=_told))
        for key, shapes in sorted(by_question.items(), key=_weight)
    ]
    told = [(machine, rows) for machine, rows in chosen if any(row.measured for row in rows)]
    return _judged([Answer(machine, topic(rows[0]), rows) for machine, rows in told])


def headlines(cells: Sequence[Row]) -> list[str]:
    """The first answers for a terminal, a text each, and how many more there are."""
    found = answers(cells)
    several = len({one.machine for one in found}) > 1
    told = [
        f"{f'{one.machine}, ' if several else ''}{one.topic}: {one.sentence}"
        for one in found[:HEADLINES]
    ]
    more = len(found) - HEADLINES
    return [*told, f"{count('more answer', more)} on the page"] if more > 0 else told


def across_machines(cells: Iterable[Row]) -> list[Answer]:
    """Which machine is fastest for what: each one's best rate for a shape that all of most share,
    at the threads that are fastest there."""
    by_question: dict[tuple[Any, ...], dict[tuple[Any, ...], dict[str, list[Row]]]] = {}
    for row in cells:
        if row.comparable and row["apart_from"] is None and not DOUBTFUL.intersection(row.flags):
            key = (row["routine"], row["dtype"], row["options"], size_class(row))
            shape = by_question.setdefault(key, {}).setdefault((row["m"], row["n"], row["k"]), {})
            shape.setdefault(row["machine"], []).append(row)
    made = []
    for _, shapes in sorted(by_question.items()):
        size = max(shapes, key=lambda one: (len(shapes[one]), prod(x or 1 for x in one)))
        best = [max(rows, key=lambda row: row["gflops"]) for rows in shapes[size].values()]
        if len(best) > 1:
            name = topic(best[0], threads=False)
            made.append(Answer("", name, best, name=_by_machine))
    return _judged(made)


def size_class(row: Row) -> str:
    """small, medium or large, after CLASSES."""
    sides = [row[axis] for axis in ("m", "n", "k") if row[axis]]
    side = prod(sides) ** (1 / len(sides) if len(sides) != 1 else 1 / 2)
    return next(name for name, most in CLASSES if most is None or round(side) <= most)


def topic(row: Row, threads: bool = True) -> str:
    """ "float32 gemm 1024³, 2 threads"."""
    sides = [row[axis] for axis in ("m", "n", "k") if row[axis]]
    cube = len(sides) == 3 and len(set(sides)) == 1
    shape = f"{sides[0]}³" if cube else "×".join(map(str, sides))
    told = f"{row['dtype']} {row['routine']} {shape}"
    told += f" {row['options']}" if row["options"] else ""
    many = f"{row['threads']} thread{'' if row['threads'] == 1 else 's'}"
    return f"{told}, {many}" if threads else told


def why(one: Comparison) -> str | None:
    """What the evidence shows to differ on the slower side, in words; None for nothing seen."""
    slower, best = one.first, one.second
    evidence = slower.evidence
    if slower["threads_seen"] == 1 and slower["threads"] > 1 and best["threads_seen"] != 1:
        return "one thread worked"
    if _computed(slower) and _computed(slower) != _computed(best):
        return f"computed in {slower['effective_precision']}"
    if evidence.hidden:
        return evidence.hidden[0].what
    if evidence.no_blas and not best.evidence.no_blas:
        return "no BLAS did the work"
    kernel = _kernel(slower)
    if kernel and kernel != _kernel(best):
        return kernel
    if slower["ceiling"] == "memory" and (slower["ceiling_share"] or 0) > NEAR:
        return "bound by memory"
    return None


def _computed(row: Row) -> str | None:
    return None if row["effective_precision"] == row["dtype"] else row["effective_precision"]


def _kernel(row: Row) -> str | None:
    if not row["kernel_seen"] or row["kernel_evidence"] not in SEEN:
        return None
    first = str(row["kernel_seen"]).split(" + ")[0]
    for pattern, words in _KERNELS:
        if found := re.search(pattern, first):
            return words.format(*found.groups())
    return first


def _judged(made: list[Answer]) -> list[Answer]:
    judge([comparison for answer in made for comparison in answer.comparisons])
    for answer in made:
        answer.rank()
    return made


def _weight(entry: tuple[tuple[Any, ...], Any]) -> tuple[Any, ...]:
    """Products first, float32 first, large first, many threads first."""
    machine, routine, dtype, options, threads, size = entry[0]
    order = [name for name, _ in CLASSES].index(size)
    product = (routine != "gemm", routine, dtype != "float32", dtype, options)
    return (machine, *product, -threads, -order)


def _fastest(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: -row["gflops"])


def _told(rows: Sequence[Row]) -> tuple[int, int]:
    return sum(row.comparable for row in rows), prod(rows[0][axis] or 1 for axis in ("m", "n", "k"))


def _by_machine(row: Row) -> str:
    many = f"{row['threads']} thread{'' if row['threads'] == 1 else 's'}"
    return f"{row['machine']} ({row['backend']}, {many})"


def _times(one: Ranked) -> str:
    """Both ways round: as a multiple of the best, and, where it is sure, as times slower."""
    share = f"{number(one.share, 2)} ×"
    if not one.slower:
        return share
    if one.share > FEW:
        return f"{share}, {100 * (1 - one.share):.0f} % slower"
    return f"{share}, {number(1 / one.share, 2)} times slower"


def _listed(texts: Iterable[str]) -> str:
    *most, last = texts
    return f"{', '.join(most)} and {last}" if most else last
