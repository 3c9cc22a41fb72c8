"""Does a cell measured again give the same number, and does its interval hold the true one?

    .venv/bin/python benchmarks/repeatability.py [--quick] [--minutes 30] [--fresh]

Twelve cells are measured ten times in each of two ways: one round (a cell's five processes follow
one another), and five rounds (every cell once, in a new order, then every cell again; the parts
are gathered as the workflow does). The ways alternate. Two figures come out for each:

spread      the largest of a cell's ten results over the smallest
coverage    how often the 95 % interval that the report would show holds the cell's grand median,
            the median over all processes of all repetitions of both ways

Repetitions are kept in results/.benchmarks/repeatability/, so that a run that ends early
(--minutes) goes on where it stopped when it is started again; --fresh begins anew.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from support import ROOT, environments, measuring, output
from support.environments import note

from gemmgrid.measure.supervise.assemble import seconds_per_call
from gemmgrid.measure.supervise.rounds import gather
from gemmgrid.records.cell import PROTOCOL, Cell
from gemmgrid.records.context import digest
from gemmgrid.records.files import write_atomically
from gemmgrid.records.statistics import interval, mean

KEPT = ROOT / "results" / ".benchmarks" / "repeatability"
CELLS = (
    ("numpy-openblas", "gemm.float32.128x128x128.t1"),
    ("numpy-openblas", "gemm.float32.512x512x512.t1"),
    ("numpy-openblas", "gemm.float32.512x512x512.t2"),
    ("numpy-openblas", "gemm.float32.1024x1024x1024.t2"),
    ("numpy-openblas", "gemm.float64.512x512x512.t1"),
    ("numpy-openblas", "gemm.float64.1024x1024x1024.t1"),
    ("numpy-openblas", "gemm.complex64.384x384x384.t2"),
    ("numpy-openblas", "gemv.float64.1024x1024.t1"),
    ("scipy-openblas", "gemm.float64.512x512x512.t2.colmajor"),
    ("cblas-openblas", "gemm.float32.512x512x512.t1"),
    ("torch-cpu", "gemm.float32.512x512x512.t1"),
    ("torch-cpu", "gemm.float64.512x512x512.t2"),
)
ROUNDS = {"one round": 1, "five rounds": 5}
PROCESSES = 5
MARGIN = 0.03
COVERED = {"one round": 0.88, "five rounds": 0.93}
"""The share of intervals that is to hold the grand median."""

Point = tuple[str, str]
"""A backend and a cell's name."""
Medians = dict[Point, list[float]]
"""Of one repetition: seconds per call of each process of each cell; none of a cell that failed."""


@dataclass
class Verdict:
    """One cell, measured one way: what its repetitions say."""

    spread: float
    """Largest result over smallest."""
    held: int
    """Intervals that hold the grand median."""
    count: int


def judge(repetitions: Sequence[Sequence[float]], grand: float) -> Verdict:
    """A cell's repetitions (seconds per call of each round or process) against the grand median."""
    results = [mean(one) for one in repetitions]
    limits = [interval(one) for one in repetitions]
    held = sum(one is not None and one.low <= grand <= one.high for one in limits)
    return Verdict(max(results) / min(results), held, len(results))


def repeat(cells: Sequence[Point], way: str, number: int, settings: Mapping[str, Any]) -> Medians:
    """One repetition of all cells: rounds of shuffled cells, then each cell's parts gathered."""
    rounds = ROUNDS[way]
    places = {backend: environments.ready(backend) for backend, _ in cells}
    chosen = {**settings, "rounds": rounds}
    parts: dict[Point, list[dict[str, Any]]] = {point: [] for point in cells}
    for turn in range(1, rounds + 1):
        shuffled = random.Random(f"{number} {way} {turn}").sample(cells, len(cells))
        for point in shuffled:
            backend, name = point
            with measuring.alone():
                run = measuring.measure(backend, Cell.parse(name), places[backend], chosen, [turn])
            parts[point].append(run)
    return {point: _gathered(point, runs) for point, runs in parts.items()}


def _gathered(point: Point, runs: list[dict[str, Any]]) -> list[float]:
    """Seconds per call of the processes of the gathered run; none where that publishes no rate."""
    whole = gather(runs)
    if whole["status"] == "ok":
        return seconds_per_call(whole)
    print(f"lost: {' '.join(point)}: {whole['status']}: {whole['reason']}", flush=True)
    return []


class Store:
    """The repetitions so far, one file each, in a folder for these cells and settings."""

    def __init__(self, folder: Path, cells: Sequence[Point], settings: Mapping[str, Any]) -> None:
        self.folder = folder / digest([PROTOCOL, cells, settings])

    def path(self, way: str, number: int) -> Path:
        return self.folder / f"{way.replace(' ', '-')}.{number:02}.json"

    def write(self, way: str, number: int, found: Medians) -> None:
        lines = [[*point, seconds] for point, seconds in found.items()]
        write_atomically(self.path(way, number), json.dumps(lines).encode())

    def read(self, way: str) -> list[Medians]:
        files = sorted(self.folder.glob(f"{way.replace(' ', '-')}.*.json"))
        return [
            {(backend, name): seconds for backend, name, seconds in json.loads(file.read_text())}
            for file in files
        ]


def report(cells: Sequence[Point], found: Mapping[str, list[Medians]]) -> int:
    """A line a cell, and the verdicts over all of them; returns how many results were lost."""
    lost = sum(not values for runs in found.values() for run in runs for values in run.values())
    runs = {
        way: {point: [run[point] for run in repetitions if run[point]] for point in cells}
        for way, repetitions in found.items()
    }
    for way, repetitions in runs.items():
        several = {point: one for point, one in repetitions.items() if len(one) > 1}
        if not several:
            print(f"{way}: no cell has two repetitions, which say too little")
            continue
        print(f"{way}, {len(found[way])} repetitions of {len(cells)} cells")
        verdicts = []
        for (backend, name), one in several.items():
            grand = grand_median(runs, (backend, name))
            verdict = judge(one, grand)
            verdicts.append(verdict)
            rate = Cell.parse(name).flops / grand / 1e9
            print(
                f"  {backend:<15} {name:<36} {rate:8.1f} GFLOP/s  "
                f"spread {verdict.spread - 1:6.1%}  interval holds {verdict.held}/{verdict.count}"
            )
        _conclude(way, verdicts)
    return lost


def grand_median(runs: Mapping[str, Mapping[Point, list[list[float]]]], point: Point) -> float:
    """The median over all processes of a cell, of all repetitions and ways."""
    return median(value for way in runs.values() for one in way[point] for value in one)


def _conclude(way: str, verdicts: Sequence[Verdict]) -> None:
    spreads = sorted(one.spread - 1 for one in verdicts)
    inside = sum(spread <= MARGIN for spread in spreads)
    held = sum(one.held for one in verdicts)
    count = sum(one.count for one in verdicts)
    print(
        f"  any two results within {MARGIN:.0%}: {inside} of {len(verdicts)} cells "
        f"(median cell {median(spreads):.1%}, worst {spreads[-1]:.1%}); target: all"
    )
    print(
        f"  intervals that hold the grand median: {held / count:.1%} of {count}; "
        f"target ≥ {COVERED[way]:.0%}: {'met' if held >= COVERED[way] * count else 'MISSED'}"
    )


def main(arguments: list[str] | None = None) -> int:
    given = _arguments(arguments)
    cells = CELLS[:2] if given.quick else CELLS
    quick = {"sample_s": 0.02, "warmup_s": 0.02} if given.quick else {}
    settings = measuring.settings(invocations=PROCESSES, evidence=False, **quick)
    if given.fresh:
        shutil.rmtree(given.keep, ignore_errors=True)
    store = Store(given.keep, cells, settings)
    output.header("repeatability: the same cells again and again")
    stop = time.monotonic() + 60 * given.minutes
    longest = 0.0
    for number in range(1, given.repetitions + 1):
        for way in ROUNDS:
            start = time.monotonic()
            if store.path(way, number).exists() or start + longest > stop:
                continue
            note(f"repetition {number} of {given.repetitions}, {way}")
            store.write(way, number, repeat(cells, way, number, settings))
            longest = max(longest, time.monotonic() - start)
    found = {way: store.read(way) for way in ROUNDS}
    lost = report(cells, found)
    missing = sum(given.repetitions - min(len(one), given.repetitions) for one in found.values())
    if missing:
        print(f"{missing} repetitions are still to do: start again to go on")
    if lost:
        print(f"{lost} results of cells were lost: their runs were not ok")
    return 1 if lost else 0


def _arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two cells, two short repetitions")
    parser.add_argument("--repetitions", type=int, help="of each way (10)")
    parser.add_argument("--minutes", type=float, default=30, help="begin no repetition after (30)")
    parser.add_argument("--fresh", action="store_true", help="forget earlier repetitions")
    parser.add_argument("--keep", type=Path, default=KEPT, help="where repetitions are kept")
    given = parser.parse_args(arguments)
    given.repetitions = given.repetitions or (2 if given.quick else 10)
    return given


if __name__ == "__main__":
    sys.exit(main())
