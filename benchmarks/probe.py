"""Does the probe's machine code find what a C compiler's does? Both in turn, in one process.

    .venv/bin/python benchmarks/probe.py [--turns 30] [--memory-mb 128]

Needs gcc and an x86-64 processor with AVX-512 (the C version's vectors). One line a figure: the
median of either side over all turns, and of their ratios, the probe's over C's, within a turn,
which the state of a virtual machine does not reach. Exits with 1 where a ratio is more than 3 %
from 1; for a trip also 5 ns are allowed, the time from one look at the line to the next, which is
what the placing of a loop in memory changes. What the probe costs a process is printed last: twice
trips and arithmetic. The machine must be quiet: where other work interrupts one of two CPUs, either
side's loops run alone part of the time, and then memory is faster than for both.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from gemmgrid.measure.probe import team
from gemmgrid.measure.probe.team import Team

SOURCE = Path(__file__).with_name("support") / "probe.c"
FLAGS = ["-O3", "-march=native", "-ffast-math", "-shared", "-fPIC", "-pthread"]
WITHIN = 0.03
LOOK_NS = 5.0
MOST_S = 0.015
"""What trips and arithmetic, before and after, may cost a process."""


class CVersion:
    """The same figures from compiled C."""

    def __init__(self, folder: Path, cpus: list[int]) -> None:
        built = folder / "probe.so"
        subprocess.run(["gcc", *FLAGS, "-o", built, SOURCE], check=True)
        self._library = ctypes.CDLL(str(built))
        self._cpus = (ctypes.c_int * len(cpus))(*cpus)

    def _call(self, name: str, count: int, *arguments: int | ctypes.c_long) -> list[float]:
        out = (ctypes.c_double * count)()
        getattr(self._library, name)(self._cpus, *arguments, out)
        return list(out)

    def trips(self) -> list[float]:
        count = ctypes.c_long(team.TRIPS // team.CHUNKS)
        return self._call("trip", team.CHUNKS, team.CHUNKS, count)

    def flops(self, dtype: str) -> list[float]:
        double, rounds = int(dtype == "float64"), ctypes.c_long(team.ROUNDS)
        return self._call("arithmetic", team.CHUNKS, len(self._cpus), double, team.CHUNKS, rounds)

    def memory(self, size: int) -> tuple[list[float], list[float]]:
        length = ctypes.c_long(size // 3 // len(self._cpus))
        found = self._call("memory", 2 * team.PASSES, len(self._cpus), team.PASSES, length)
        return found[: team.PASSES], found[team.PASSES :]


def figures(ours: Team, theirs: CVersion, size: int) -> Iterator[tuple[str, float, float]]:
    """Name, the probe's figure and C's, of repetitions: the middle, of arithmetic the best.

    Of memory the best would be the one in which the threads overlapped least.
    """
    if len(ours.cpus) > 1:
        yield "trip, ns", median(ours.trips()[0]["ns"]), median(theirs.trips())  # type: ignore[call-overload]
    for dtype in ("float32", "float64"):
        yield f"{dtype}, FLOP/s", max(ours.flops(dtype)["all"]), max(theirs.flops(dtype))
    mine = ours.memory(size)
    triad, read = theirs.memory(int(str(mine["bytes"])))
    yield "triad, bytes/s", median(mine["triad"]), median(triad)  # type: ignore[call-overload]
    yield "read, bytes/s", median(mine["read"]), median(read)  # type: ignore[call-overload]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=30)
    parser.add_argument("--memory-mb", type=int, default=128)
    arguments = parser.parse_args()
    cpus = sorted(os.sched_getaffinity(0))[:2]
    ours = Team(cpus)
    if ours.vectors != "avx512":
        print("no AVX-512 here: the C version needs it", file=sys.stderr)
        return 1
    pairs: dict[str, list[tuple[float, float]]] = defaultdict(list)
    costs = []
    with tempfile.TemporaryDirectory() as folder:
        theirs = CVersion(Path(folder), cpus)
        for _ in range(arguments.turns):
            for name, mine, other in figures(ours, theirs, arguments.memory_mb << 20):
                pairs[name].append((mine, other))
            start = time.perf_counter()
            for _ in ("before", "after"):
                ours.trips(), ours.flops("float32"), ours.flops("float64")
            costs.append(time.perf_counter() - start)
    failed = False
    for name, found in pairs.items():
        ratio = median(mine / other for mine, other in found)
        mine, other = (median(values) for values in zip(*found, strict=True))
        close = name.startswith("trip") and abs(mine - other) <= LOOK_NS
        failed = failed or (abs(ratio - 1) > WITHIN and not close)
        print(f"{name:<16}  probe {mine:12.4g}  C {other:12.4g}  ratio={ratio:.3f}")
    cost = median(costs)
    print(f"before and after  {1e3 * cost:.1f} ms a process (at most {1e3 * MOST_S:.0f})")
    return int(failed or cost > MOST_S)


if __name__ == "__main__":
    sys.exit(main())
