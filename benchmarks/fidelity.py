"""Does gemmgrid find the time that others find? The same product, timed by both, in turn.

    .venv/bin/python benchmarks/fidelity.py [--quick] [--processes 5] [--rivals C pyperf]

C       the OpenBLAS that NumPy ships, called from a small C program with the same warm-up, batches
        and operand placement; what is left is Python's own cost
torch   torch.utils.benchmark on torch.matmul; pyperf on np.matmul: their rules for their calls

Every figure is the median over fresh processes of the process's median. The processes of both
sides alternate, cells shuffled in every round, so that a drift of the machine meets both alike.
One line a cell, ending in ratio=(gemmgrid's time / the other's). Nothing is judged but printed;
the exit code is 1 only where something could not be measured.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from statistics import median

from support import environments, measuring, output
from support.environments import note
from support.rivals import CProgram, Rival, rival

from gemmgrid.measure.supervise.assemble import seconds_per_call
from gemmgrid.records.cell import Cell
from gemmgrid.records.statistics import Interval
from gemmgrid.report.statistics import ratio

SIZES = (128, 256, 512, 1024, 2048)
LARGE = 512
"""From this size on the ratio to C is promised to lie within WITHIN."""
WITHIN = (0.98, 1.02)
TINY = 8
"""A product of this size takes about 0.1 µs: what is measured is the call."""
DTYPES = ("float32", "float64")
PEER_SIZES = (128, 512, 1024)
BACKENDS = {"C": "numpy-openblas", "torch": "torch-cpu", "pyperf": "numpy-openblas"}
"""What gemmgrid measures against each rival; the environments have the same names."""


@dataclass
class Comparison:
    """One cell, timed by gemmgrid and by a rival; times in seconds, one a process."""

    cell: Cell
    backend: str
    rival: Rival
    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    call_ns: list[float] = field(default_factory=list)
    """What gemmgrid's records say about the cost of the call itself."""

    @property
    def ratio(self) -> float | None:
        """Median of our times over median of theirs; None where a side is missing."""
        return median(self.ours) / median(self.theirs) if self.ours and self.theirs else None

    @property
    def interval(self) -> Interval | None:
        """95 % interval of the ratio over the processes; None for fewer than two each."""
        return ratio(self.theirs, self.ours)

    @property
    def extra_ns(self) -> float:
        """Nanoseconds a call by which ours is longer."""
        return 1e9 * (median(self.ours) - median(self.theirs))

    @property
    def line(self) -> str:
        cell = self.cell
        name = f"{self.backend:<14} {cell.dtype}  n={cell.n:<5} t{cell.threads}"
        value = self.ratio
        if value is None:
            return f"{name} not compared: {'; '.join(self.problems)}"
        limits = self.interval
        interval = f"[{limits.low:.3f}, {limits.high:.3f}]" if limits else ""
        lost = f"  ({len(self.problems)} processes lost)" if self.problems else ""
        return (
            f"{name} {self.rival.name} {1e6 * median(self.theirs):10.2f} µs  "
            f"gemmgrid {1e6 * median(self.ours):10.2f} µs  {self.extra_ns:+10.0f} ns{lost}  "
            f"{interval:<16} ratio={value:.3f}"
        )


def turns(
    comparisons: Sequence[Comparison], processes: int, seed: int
) -> Iterator[tuple[Comparison, bool]]:
    """Every comparison once a round, in a new order; whether ours goes first, which alternates."""
    generator = random.Random(seed)
    indices = range(len(comparisons))
    for number in range(processes):
        for index in generator.sample(indices, len(indices)):
            yield comparisons[index], (number + index) % 2 == 0


def compare(one: Comparison, measure_ours: Callable[[Comparison], None], first: bool) -> None:
    """One process of each side. What fails is kept as a problem."""
    steps: list[Callable[[], None]] = [
        lambda: measure_ours(one),
        lambda: one.theirs.append(one.rival.seconds(one.cell)),
    ]
    with measuring.alone():
        for step in steps if first else reversed(steps):
            try:
                step()
            except RuntimeError as error:
                one.problems.append(str(error))


def within(comparisons: Sequence[Comparison]) -> tuple[list[Comparison], list[Comparison]]:
    """The comparisons of large products, and those of them outside the promised ratio."""
    large = [one for one in comparisons if one.cell.n >= LARGE]
    low, high = WITHIN
    return large, [one for one in large if one.ratio is None or not low <= one.ratio <= high]


def grid(sizes: Sequence[int], dtypes: Sequence[str], threads: Sequence[int]) -> list[Cell]:
    """Square products of these sizes."""
    points = product(dtypes, sizes, threads)
    return [Cell("gemm", dtype, (n, n, n), count) for dtype, n, count in points]


def conclude(comparisons: Sequence[Comparison]) -> None:
    """The verdict on C, and what Python's call costs."""
    against_c = [one for one in comparisons if isinstance(one.rival, CProgram)]
    if not against_c:
        return
    large, outside = within(against_c)
    low, high = WITHIN
    names = ", ".join(f"{one.cell.name} {one.ratio or float('nan'):.3f}" for one in outside)
    print(
        f"n >= {LARGE}: {len(large) - len(outside)} of {len(large)} ratios to C lie within "
        f"{low}–{high}{': all' if not outside else f'; outside: {names}'}"
    )
    for one in against_c:
        if one.cell.n < LARGE and one.ratio is not None:
            said = f"; the records say {median(one.call_ns):.0f} ns" if one.call_ns else ""
            print(
                f"Python's own cost a call, {one.cell.name}: {one.extra_ns:+.0f} ns of "
                f"{1e9 * median(one.ours):.0f} ns{said}"
            )


def gather(given: argparse.Namespace, folder: Path) -> tuple[list[Comparison], list[str]]:
    """All comparisons, measured; and which rivals could not be made ready, with the reason."""
    settings = measuring.settings(
        invocations=1,
        evidence=False,
        sample_s=given.sample_s,
        interval=1.0,  # never reached early: both sides sample for a fixed time
    )
    places = {name: environments.ready(name) for name in {BACKENDS[one] for one in given.rivals}}

    def measure_ours(one: Comparison) -> None:
        run = measuring.measure(one.backend, one.cell, places[one.backend], settings)
        if run["status"] != "ok":
            raise RuntimeError(f"gemmgrid: {run['status']}: {run['reason']}")
        file = one.rival.library["file"] if isinstance(one.rival, CProgram) else None
        if file and run["library"]["file"] != file:
            raise RuntimeError(f"gemmgrid timed {run['library']['file']}, the C program {file}")
        one.ours += seconds_per_call(run)
        one.call_ns += [t["call_overhead_ns"] for t in run["invocations"] if t["call_overhead_ns"]]

    comparisons: list[Comparison] = []
    failed: list[str] = []
    for name in given.rivals:
        backend = BACKENDS[name]
        try:
            other = rival(name, places[backend], settings, folder)
        except RuntimeError as error:
            failed.append(f"{name}: {error}")
            continue
        sizes, dtypes = (given.peer_sizes, given.dtypes[:1])
        if name == "C":
            sizes, dtypes = (TINY, *given.sizes), given.dtypes
        cells = grid(sizes, dtypes, given.threads)
        comparisons += [Comparison(cell, backend, other) for cell in cells]
    total = len(comparisons) * given.processes
    for number, (one, first) in enumerate(turns(comparisons, given.processes, given.seed), 1):
        note(f"[{number}/{total}] {one.cell.name} {one.rival.name}")
        compare(one, measure_ours, first)
    return comparisons, failed


def main(arguments: list[str] | None = None) -> int:
    given = _arguments(arguments)
    output.header("fidelity: gemmgrid against others on the same product")
    with tempfile.TemporaryDirectory(prefix="gemmgrid-fidelity-") as folder:
        comparisons, failed = gather(given, Path(folder))
    for one in comparisons:
        print(one.line)
    conclude(comparisons)
    failed += [f"{one.cell.name} against {one.rival.name}" for one in comparisons if not one.ratio]
    for problem in failed:
        print(f"not compared: {problem}")
    return 1 if failed else 0


def _arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few cells, two processes")
    parser.add_argument("--processes", type=int, help="fresh processes of each side (5)")
    parser.add_argument("--sizes", type=int, nargs="+", help=f"n against C {SIZES}")
    parser.add_argument("--rivals", nargs="+", choices=BACKENDS, default=list(BACKENDS))
    parser.add_argument("--sample-s", type=float, help="seconds of samples a process (0.25)")
    parser.add_argument("--seed", type=int, default=1, help="of the order")
    given = parser.parse_args(arguments)
    quick = given.quick
    given.processes = given.processes or (2 if quick else 5)
    given.sizes = given.sizes or ((128, 512) if quick else SIZES)
    given.sample_s = given.sample_s or (0.05 if quick else 0.25)
    given.peer_sizes = (512,) if quick else PEER_SIZES
    given.dtypes = DTYPES[:1] if quick else DTYPES
    given.threads = (1,) if quick else (1, 2)
    return given


if __name__ == "__main__":
    sys.exit(main())
