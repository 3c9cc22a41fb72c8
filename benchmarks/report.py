"""What a large results folder costs the report: tables, tables after one more run, page.

    .venv/bin/python benchmarks/report.py --template results/<machine>/<backend>/<cell>.jsonl
        [--machines 20] [--cells 500] [--runs 1] [--parts tables again page]

The folder is synthetic and is deleted afterwards: the template's newest run, made on a real
machine, stands for `cells` cells on each of `machines` machines, `runs` times each, its samples a
few percent faster or slower every time. `--runs 10` makes 100,000 runs (as many lines of the
template's length on the disk).

line      the length of a run's line
tables    `gemmgrid tables` in a process of its own: time, and its peak memory
again     the same after one more run of one cell
page      `gemmgrid page`: time, peak memory, size of the file

Every target is printed beside what was measured. Nothing is judged but printed; the exit code is 1
only where something could not be measured. The page in a browser is not part of it.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice, product
from pathlib import Path
from typing import Any

from support import PACKAGE, output

from gemmgrid.records import history
from gemmgrid.records.cell import Cell

LARGEST_LINE_KB = 15.0
LARGEST_S = {"tables": 60.0, "again": 5.0}
LARGEST_GB = 2.0
LARGEST_PAGE_MB = 10.0
PARTS = ("tables", "again", "page")
BACKENDS = ("numpy-openblas", "scipy-openblas", "torch-cpu", "jax-cpu", "mlx-cpu")
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def cells(count: int) -> Iterator[tuple[str, Cell]]:
    """So many cells of one machine, with their backends: sizes from 32 on, in steps of 32."""
    sizes = range(32, 32 * (count // 20 + 2), 32)
    grid = product(sizes, ("float32", "float64"), (1, 2), BACKENDS)
    for n, dtype, threads, backend in islice(grid, count):
        yield backend, Cell("gemm", dtype, (n, n, n), threads)


def varied(
    template: dict[str, Any], machine: str, backend: str, cell: Cell, day: int, rng: random.Random
) -> bytes:
    """The line of the template's run as that cell's, on that machine, at that day."""
    speed = (cell.flops / Cell.from_json(template["cell"]).flops) * rng.uniform(0.9, 1.1)
    invocations = []
    for one in template["invocations"]:
        factor = speed * rng.uniform(0.98, 1.02)
        samples = dict(one.get("samples") or {})
        for key in ("at_ns", "elapsed_ns"):
            samples[key] = [max(1, round(value * factor)) for value in samples.get(key) or []]
        invocations.append({**one, "samples": samples})
    at = (BEGIN + timedelta(days=day)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    changed = {
        "id": f"{at}-{rng.randrange(1 << 24):06x}",
        "started_at": at,
        "ended_at": at,
        "machine": machine,
        "backend": backend,
        "cell": cell.to_json(),
        "invocations": invocations,
    }
    return history.dumps({**template, **changed}).encode() + b"\n"


def fill(results: Path, template: Path, machines: int, count: int, runs: int) -> Path:
    """The synthetic folder; returns the history that a further run goes to."""
    run = history.latest(template)
    if run is None or run["status"] != "ok":
        raise SystemExit(f"{template}: its newest run is not ok; name another history")
    facts = template.parents[1] / "machine.json"
    rng = random.Random(1)
    path = results
    for number in range(machines):
        machine = results / f"machine-{number:02}"
        machine.mkdir(parents=True)
        if facts.is_file():
            (machine / facts.name).write_bytes(facts.read_bytes())
        for backend, cell in cells(count):
            path = machine / backend / f"{cell.name}.jsonl"
            path.parent.mkdir(exist_ok=True)
            days = range(runs)
            made = (varied(run, machine.name, backend, cell, day, rng) for day in days)
            path.write_bytes(b"".join(made))
    return path


def timed(*arguments: str) -> tuple[float, float]:
    """Seconds and peak memory in GB of one command of gemmgrid."""
    command = [sys.executable, "-m", "gemmgrid", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    start = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}")
    unit = 1 if sys.platform == "darwin" else 1024
    return seconds, usage.ru_maxrss * unit / 1e9


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--template", type=Path, required=True, help="a history with an ok run")
    parser.add_argument("--machines", type=int, default=20)
    parser.add_argument("--cells", type=int, default=500, help="of each machine")
    parser.add_argument("--runs", type=int, default=1, help="of each cell")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    given = parser.parse_args()
    output.header("The report of a large results folder (synthetic)")
    with tempfile.TemporaryDirectory(prefix="gemmgrid-report-") as folder:
        results, page = Path(folder) / "results", Path(folder) / "index.html"
        last = fill(results, given.template, given.machines, given.cells, given.runs)
        print(f"{given.machines} machines × {given.cells} cells × {given.runs} runs", flush=True)
        line = last.read_bytes().splitlines(keepends=True)[-1]
        print(output.verdict("line: a run's", len(line) / 1e3, LARGEST_LINE_KB, "kB"), flush=True)
        for part in given.parts:
            if part == "again":
                run = history.latest(last)
                assert run is not None
                at = (BEGIN + timedelta(days=given.runs)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
                history.append(last, {**run, "id": "again", "started_at": at, "ended_at": at})
            asked = ["page", "--out", str(page)] if part == "page" else ["tables"]
            seconds, gigabytes = timed(*asked, "--results", str(results))
            if part == "page":
                print(f"page: {seconds:.1f} s, {gigabytes:.2f} GB", flush=True)
            else:
                print(output.verdict(f"{part}: time", seconds, LARGEST_S[part], "s"))
                print(output.verdict(f"{part}: memory", gigabytes, LARGEST_GB, "GB"), flush=True)
        if page.is_file():
            size = page.stat().st_size / 1e6
            print(output.verdict("page: size", size, LARGEST_PAGE_MB, "MB"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
