"""What gemmgrid costs beside what it measures: planning a large grid, and each cell's overhead.

    .venv/bin/python benchmarks/costs.py [--quick] [--parts dry-run plan cell]

dry-run   `snakemake -n` of a 10,000-cell grid and of a bare Snakefile with as many trivial shell
          jobs, in turn: the ratio of their times, and the peak memory of the grid's
plan      loading the plan of that grid alone, as every parse of the workflow does
cell      the job of a NumPy cell with five processes in one round: its time beyond warm-up and
          samples

Every line states its target. Nothing is judged but printed; the exit code is 1 only where something
could not be measured.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from statistics import median

from support import PACKAGE, ROOT, cell_costs, dry_runs, environments, measuring, output
from support.environments import note

LARGEST_RATIO = 1.5
LARGEST_MB = 600.0
LARGEST_PLAN_S = 0.7
LARGEST_CELL_S = 1.2
CELLS = (
    "gemm.float32.512x512x512.t1",
    "gemm.float32.512x512x512.t2",
    "gemm.float64.512x512x512.t1",
    "gemm.float32.1024x1024x1024.t2",
    "gemm.float32.128x128x128.t1",
    "gemv.float32.1024x1024.t1",
)

_LOAD_PLAN = """
import json, sys, time
from pathlib import Path
start = time.perf_counter()
import yaml
from gemmgrid.plan import load
imported = time.perf_counter()
root = Path(sys.argv[1])
text = (root / "config/config.yaml").read_text(encoding="utf-8")
config = yaml.safe_load(text) | json.loads(sys.argv[2])
read = time.perf_counter()
plan = load(config, root, "venv")
loaded = time.perf_counter()
print(json.dumps([len(plan.cells), imported - start, loaded - read]))
"""


def dry_run(count: int, repeats: int) -> None:
    """Both workflows in turn; prints the ratio of the medians and the peak memory."""
    grid: list[dry_runs.Cost] = []
    bare: list[dry_runs.Cost] = []
    with tempfile.TemporaryDirectory(prefix="gemmgrid-dry-run-") as text:
        places = [Path(text, name) for name in ("grid", "bare")]
        for place in places:
            place.mkdir()
        commands = [
            dry_runs.lay_out_grid(places[0], count),
            dry_runs.lay_out_bare(places[1], count),
        ]
        for number in range(repeats):
            pairs = list(zip((grid, bare), commands, places, strict=True))
            for costs, command, place in pairs if number % 2 == 0 else reversed(pairs):
                note(f"dry run {number + 1} of {repeats}: {place.name}, {count} jobs")
                costs.append(dry_runs.run(command, place))
    seconds = [median(cost.seconds for cost in costs) for costs in (grid, bare)]
    title = f"dry run of {count} cells"
    work = [median(cost.cpu_s for cost in costs) for costs in (grid, bare)]
    more = (
        f"  (gemmgrid {seconds[0]:.1f} s, bare {seconds[1]:.1f} s, {repeats} each; "
        f"of CPU time {work[0] / work[1]:.3f} ×)"
    )
    ratio = seconds[0] / seconds[1]
    print(output.verdict(f"{title}, of a bare one", ratio, LARGEST_RATIO, "×", more))
    peaks = [max(cost.peak_mb for cost in costs) for costs in (grid, bare)]
    more = f"  (bare {peaks[1]:.0f} MB)"
    print(output.verdict(f"{title}, peak memory", peaks[0], LARGEST_MB, "MB", more))


def plan(count: int, repeats: int) -> None:
    """The plan alone, each time in a fresh process."""
    config = json.dumps(dry_runs.config_of(count))
    command = [sys.executable, "-c", _LOAD_PLAN, str(ROOT), config]
    env = environments.inherited(PACKAGE)
    found = [environments.ask(command, env) for _ in range(repeats)]
    cells, imports, seconds = (median(column) for column in zip(*found, strict=True))
    if cells != count:
        raise RuntimeError(f"the plan has {cells} cells, not {count}")
    more = f"  (imports {imports:.2f} s beside, {repeats} times)"
    print(output.verdict(f"plan of {count} cells", seconds, LARGEST_PLAN_S, "s", more))


def cell(names: tuple[str, ...], processes: int) -> None:
    """The median cell's cost with and without evidence, and where it goes."""
    for evidence in (False, True):
        costs = []
        settings = measuring.settings(invocations=processes, rounds=1, evidence=evidence)
        with tempfile.TemporaryDirectory(prefix="gemmgrid-cost-") as folder:
            for name in names:
                note(f"cell {name}, evidence {'on' if evidence else 'off'}")
                costs.append(cell_costs.measure(name, settings, Path(folder)))
        parts = {part: median(cost.parts[part] for cost in costs) for part in costs[0].parts}
        shown = ", ".join(f"{part} {seconds:.2f}" for part, seconds in parts.items() if seconds)
        spread = f"{min(c.beyond for c in costs):.2f}–{max(c.beyond for c in costs):.2f}"
        title = f"cell of {processes} processes, evidence {'on' if evidence else 'off'}"
        more = f"  ({len(costs)} cells {spread}; medians: {shown})"
        beyond = median(cost.beyond for cost in costs)
        print(output.verdict(title, beyond, LARGEST_CELL_S, "s", more))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a small grid, one cell, once")
    parts = ("dry-run", "plan", "cell")
    parser.add_argument("--parts", nargs="+", choices=parts, default=list(parts))
    parser.add_argument("--cells", type=int, help="of the grid (10,000)")
    parser.add_argument("--repeats", type=int, help="of dry runs and plans (3)")
    given = parser.parse_args(arguments)
    count = given.cells or (10 * dry_runs.PER_SHAPE if given.quick else 10_000)
    repeats = given.repeats or (1 if given.quick else 3)
    output.header("costs: what gemmgrid takes beside what it measures")
    steps = {
        "dry-run": lambda: dry_run(count, repeats),
        "plan": lambda: plan(count, repeats),
        "cell": lambda: cell(CELLS[:1] if given.quick else CELLS, 2 if given.quick else 5),
    }
    failed = 0
    for part in given.parts:
        try:
            steps[part]()
        except RuntimeError as error:
            failed += 1
            print(f"{part}: not measured: {error}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
