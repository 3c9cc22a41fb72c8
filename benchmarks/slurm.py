"""What sending cells through SLURM costs: per cell of an allocation, and on the login node.

    .venv/bin/python benchmarks/slurm.py [--cells 50] [--partition cpu --cpus 64]

cell      one allocation of small cells: the time between the end of a cell and the start of the
          next, from sending to the first cell, and from the last cell to its place in the report
waiting   CPU time of the workflow on the login node, with all it starts, while an allocation runs

Without --partition a cluster of the tests' own is started on this host (Debian's packages, root).
Every line states its target. The exit code is 1 only where something could not be measured.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from support import ROOT, output
from support.environments import note

sys.path.insert(0, str(ROOT))
from tests.slurm import cluster as test_cluster
from tests.slurm.project import SlurmProject

FOLDER = ROOT / "results" / ".benchmarks" / "slurm"
LARGEST_CELL_S = 2.0
LARGEST_SHARE = 0.10
QUIET_S = 45.0
"""Length of the waiting that is looked at: several questions to SLURM fall into it."""
SETTLED_S = 12.0
"""Seconds after sending before that: the workflow is still busy with itself."""


class SiteProject(SlurmProject):
    """With the profile as users have it."""

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-m", "snakemake", "--profile", "profiles/slurm"]


@dataclass
class CellCost:
    """Seconds: between cells (median), to the first cell, after the last one."""

    between_s: float
    first_s: float
    after_s: float
    cells: int


def cell_cost(project: SlurmProject, machine: str, cells: int) -> CellCost:
    """One allocation of `cells` cells, measured from the moments that its runs recorded."""
    study = project.tiny([32 + 2 * index for index in range(cells)])
    project.configure({**study, "machines": [machine]})
    process = project.start("--config", f"cells_per_allocation={cells}")
    sent = _wait_for(process, "sent as SLURM job")
    printed, _ = process.communicate(timeout=1800)
    if process.returncode:
        raise RuntimeError(printed[-2000:])
    ended = time.time()
    runs = [runs[-1] for runs in project.cells(machine).values()]
    spans = sorted((_moment(run["started_at"]), _moment(run["ended_at"])) for run in runs)
    gaps = [start - end for (_, end), (start, _) in pairwise(spans)]
    return CellCost(median(gaps), spans[0][0] - sent, ended - spans[-1][1], len(spans))


def waiting_share(
    project: SlurmProject, machine: str, quiet_s: float = QUIET_S, settled_s: float = SETTLED_S
) -> float:
    """Share of a core that the workflow takes while one long cell runs on a node."""
    project.add_backend(
        "sleeper",
        adapter="numpy",
        device="cpu",
        environment="sleeper",
        platforms=["linux-x86_64", "linux-aarch64"],
        dtypes=["float32"],
        python=project.script("sleeper", f"sleep {quiet_s + 30:.0f}"),
    )
    study = project.tiny([32])
    study["grid"][0]["backends"] = ["sleeper"]
    budget = {"cell_s": quiet_s + 60}
    project.configure({**study, "machines": [machine], "budget": budget})
    process = project.start()
    try:
        _wait_for(process, "sent as SLURM job")
        time.sleep(settled_s)
        before, start = _cpu_s(process.pid), time.monotonic()
        time.sleep(quiet_s)
        return (_cpu_s(process.pid) - before) / (time.monotonic() - start)
    finally:
        os.killpg(process.pid, signal.SIGINT)  # ends the allocation as well
        process.communicate(timeout=300)


def _wait_for(process: subprocess.Popen[str], words: str) -> float:
    """When the workflow printed these words."""
    assert process.stdout
    for line in process.stdout:
        if re.search(words, line):
            return time.time()
    raise RuntimeError(f"the workflow ended without {words!r}")


def _cpu_s(pid: int) -> float:
    """User and system seconds of a process and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _moment(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


@contextmanager
def a_cluster(given: argparse.Namespace) -> Iterator[dict[str, Any] | None]:
    """The entry of a machine to send to: the site's, or one of a cluster for this program."""
    if given.partition:
        yield {"partition": given.partition, "cpus": given.cpus}
        return
    problem = test_cluster.missing()
    if problem:
        print(f"not measured: {problem}")
        yield None
        return
    own = test_cluster.Cluster(FOLDER / "cluster")
    try:
        own.start()
        yield {"partition": "cpu", "constraint": "milan", "cpus": 2}
    finally:
        own.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=50, help="in the allocation (50)")
    parser.add_argument("--partition", help="of a real cluster")
    parser.add_argument("--cpus", type=int, default=1, help="of its nodes")
    given = parser.parse_args()
    output.header("slurm: what sending costs")
    shutil.rmtree(FOLDER, ignore_errors=True)
    with a_cluster(given) as entry:
        if entry is None:
            return 0
        project = SiteProject(FOLDER / "project")
        project.send_to(node=entry)
        note(f"an allocation of {given.cells} cells")
        cost = cell_cost(project, "node", given.cells)
        more = f"  ({cost.cells} cells)"
        print(output.verdict("between two cells", cost.between_s, LARGEST_CELL_S, "s", more))
        whole = (cost.first_s + cost.after_s) / cost.cells + cost.between_s
        print(output.verdict("all that is no measuring, per cell", whole, LARGEST_CELL_S, "s"))
        print(f"  from sending to the first cell {cost.first_s:.1f} s, after the last one")
        print(f"  until all stands in the report {cost.after_s:.1f} s", flush=True)
        note("waiting")
        share = waiting_share(project, "node")
        print(output.verdict("of a core while waiting", 100 * share, 100 * LARGEST_SHARE, "%"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
