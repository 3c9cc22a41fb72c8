"""Does a cell measured again give the same number, and are the verdicts about it true?

    .venv/bin/python benchmarks/repeatability.py [--repetitions 10] [--cells WORD …] [--minutes 60]

Twelve cells are measured again and again as `make bench` does it: in five rounds, one process a
round, all cells in each round in a new order. Every cell stands in each round under two names, a
and b, so that each repetition compares it with itself in the same rounds (paired), and every two
repetitions compare it with itself at two times (unpaired). By the report's own code:

spread      any two results of a cell whose processes ran in one state of the machine
coverage    how often an interval holds the cell's grand median (over all rounds of all results)
A/A         how often a comparison of a cell with itself says faster or slower

One repetition takes about two minutes on two cores. Start it on a quiet machine and leave that
alone. Repetitions are kept in results/.benchmarks/repeatability/, so that a run that is
interrupted, or ends early (--minutes), goes on where it stopped when it is started again; --fresh
begins anew. Another choice of cells, settings or protocol is kept apart. --one-round measures
each repetition also in one round, five processes in a row, to show what rounds are for. Exits with
1 where results were lost.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from support import ROOT, environments, measuring, output, repeated
from support.environments import note
from support.repeated import Point, Results

from gemmgrid.measure.supervise.placement import lacking
from gemmgrid.measure.supervise.rounds import gather
from gemmgrid.records.cell import PROTOCOL, Cell
from gemmgrid.records.context import digest
from gemmgrid.records.files import write_atomically
from gemmgrid.records.history import dumps
from gemmgrid.report.read.rows import Row, from_run
from gemmgrid.report.read.scan import CellFile

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
ROUNDS = {"five rounds": 5, "one round": 1}
PROCESSES = 5
NAMES = ("a", "b")

Runs = dict[Point, list[dict[str, Any]]]
"""Of one repetition: each cell's runs, one a name."""


def repeat(
    cells: Sequence[Point], way: str, number: int, settings: Mapping[str, Any], trips: Path
) -> Runs:
    """One repetition of all cells under their names: rounds of shuffled cells, then gathered."""
    rounds = ROUNDS[way]
    places = {backend: environments.ready(backend) for backend, _ in cells}
    chosen = {**settings, "rounds": rounds}
    parts: dict[tuple[Point, str], list[dict[str, Any]]] = {
        (point, name): [] for point in cells for name in NAMES
    }
    for turn in range(1, rounds + 1):
        note(f"  round {turn} of {rounds}")
        shuffled = random.Random(f"{number} {way} {turn}").sample([*parts], len(parts))
        found: dict[tuple[Point, str], dict[str, Any]] = {}
        # As a job does: each cell's turn, then another one for those that met a worse placement.
        for again in (False, True) if rounds > 1 else (False,):
            for key in shuffled:
                if again and not lacking(found[key]):
                    continue
                (backend, cell), _ = key
                of_round, part = turn if rounds > 1 else None, found.get(key)
                with measuring.alone():
                    found[key] = measuring.measure(
                        backend, Cell.parse(cell), places[backend], chosen, of_round, part, trips
                    )
        for key, part in found.items():
            parts[key].append(part)
    return {point: [gather(parts[point, name]) for name in NAMES] for point in cells}


class Store:
    """The repetitions so far, a file each, in a folder for these cells and settings."""

    def __init__(self, folder: Path, cells: Sequence[Point], settings: Mapping[str, Any]) -> None:
        self.folder = folder / digest([PROTOCOL, cells, settings, NAMES])

    @property
    def trips(self) -> Path:
        """What trips between the CPUs were seen, which tells the states."""
        return self.folder / "trips.txt"

    def path(self, way: str, number: int) -> Path:
        return self.folder / f"{way.replace(' ', '-')}.{number:02}.jsonl"

    def write(self, way: str, number: int, found: Runs) -> None:
        lines = [dumps(run) + "\n" for runs in found.values() for run in runs]
        write_atomically(self.path(way, number), "".join(lines).encode())

    def read(self, way: str) -> list[Results]:
        files = sorted(self.folder.glob(f"{way.replace(' ', '-')}.*.jsonl"))
        return list(map(_results, files))


def _results(file: Path) -> Results:
    """The rows of a repetition's runs; a run that is not ok is said and left out."""
    found: dict[Point, list[Row]] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        run = json.loads(line)
        cell = Cell.from_json(run["cell"])
        row = from_run(run, CellFile(run["machine"], run["backend"], cell, file))
        rows = found.setdefault((run["backend"], cell.name), [])
        if row.measured:
            rows.append(row)
        else:
            print(f"lost: {run['backend']} {cell.name}: {row['status']}: {row['reason']}")
    return {point: tuple(rows) for point, rows in found.items()}


def measure_all(
    given: argparse.Namespace, store: Store, cells: Sequence[Point], settings: Mapping[str, Any]
) -> int:
    """Measure what is missing while there is time; returns how many repetitions still are."""
    stop, longest, missing = time.monotonic() + 60 * given.minutes, 0.0, 0
    ways = list(ROUNDS) if given.one_round else list(ROUNDS)[:1]
    for number in range(1, given.repetitions + 1):
        for way in ways:
            if store.path(way, number).exists():
                continue
            start = time.monotonic()
            if start + longest > stop:
                missing += 1
                continue
            note(f"repetition {number} of {given.repetitions}, {way}")
            store.write(way, number, repeat(cells, way, number, settings, store.trips))
            longest = max(longest, time.monotonic() - start)
            note(f"  took {time.monotonic() - start:.0f} s")
    return missing


def main(arguments: list[str] | None = None) -> int:
    given = _arguments(arguments)
    cells = CELLS[:2] if given.quick else [one for one in CELLS if _chosen(one, given.cells)]
    quick = {"sample_s": 0.02, "warmup_s": 0.02} if given.quick else {}
    settings = measuring.settings(invocations=PROCESSES, evidence=False, **quick)
    if given.fresh:
        shutil.rmtree(given.keep, ignore_errors=True)
    store = Store(given.keep, cells, settings)
    output.header("repeatability: the same cells again and again")
    missing = measure_all(given, store, cells, settings)
    lost = 0
    for way in ROUNDS:
        results = store.read(way)
        lost += sum(len(NAMES) - len(rows) for one in results for rows in one.values())
        if results:
            print("\n".join(repeated.report(way, results, cells)))
    if missing:
        print(f"{missing} repetitions are still to do: start again to go on")
    if lost:
        print(f"{lost} results of cells were lost: their runs were not ok")
    return 1 if lost else 0


def _chosen(point: Point, words: Sequence[str]) -> bool:
    return not words or any(word in " ".join(point) for word in words)


def _arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repetitions", type=int, help="of each way (10)")
    parser.add_argument("--cells", nargs="+", default=[], help="only those whose name has a word")
    parser.add_argument("--minutes", type=float, default=60, help="begin no repetition after (60)")
    parser.add_argument("--one-round", action="store_true", help="measure in one round, too")
    parser.add_argument("--quick", action="store_true", help="two cells, two short repetitions")
    parser.add_argument("--fresh", action="store_true", help="forget earlier repetitions")
    parser.add_argument("--keep", type=Path, default=KEPT, help="where repetitions are kept")
    given = parser.parse_args(arguments)
    given.repetitions = given.repetitions or (2 if given.quick else 10)
    if not any(_chosen(point, given.cells) for point in CELLS):
        parser.error("--cells: no cell's name has any of these words")
    return given


if __name__ == "__main__":
    sys.exit(main())
