"""What measuring one cell costs beyond its warm-up and its samples."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gemmgrid.records import history
from gemmgrid.records.cell import Cell
from support import PACKAGE, environments, jobs, measuring

BACKEND = "numpy-openblas"


@dataclass
class CellCost:
    """Seconds of one cell's job: the command that the workflow runs, from start to end."""

    wall: float
    run: dict[str, Any]

    @property
    def timed(self) -> float:
        """Warm-up and samples of all processes."""
        return sum(
            one["warmup"]["seconds"] + sum(one["samples"]["elapsed_ns"]) / 1e9
            for one in self.run["invocations"]
        )

    @property
    def beyond(self) -> float:
        return self.wall - self.timed

    @property
    def parts(self) -> dict[str, float]:
        """What the record tells about the time beyond, and what is left."""
        known = {
            "imports": self._sum("import_s"),
            "operands": self._sum("setup_s"),
            "first calls": self._sum("first_call_s"),
            "evidence": float((self.run["evidence"] or {}).get("cost_s", 0.0)),
        }
        return {**known, "the rest": self.beyond - sum(known.values())}

    def _sum(self, key: str) -> float:
        return sum(float(one[key]) for one in self.run["invocations"])


def measure(name: str, settings: Mapping[str, Any], folder: Path) -> CellCost:
    """Run the cell's job as workflow/rules/measure.smk does; RuntimeError where it is not ok."""
    cell = Cell.parse(name)
    environment = environments.ready(BACKEND)
    out = folder / "benchmark" / BACKEND / f"{name}.jsonl"
    out.unlink(missing_ok=True)
    place = {"deploy": "venv", "environment": BACKEND, "python": environment.python, "modules": []}
    spec = measuring.spec(BACKEND, cell)
    command = jobs.lay_out(folder, "benchmark", spec, out, dict(settings), place)
    environments.write_marker_for(environment, folder / f"environments/{BACKEND}.json")
    start = time.perf_counter()
    done = subprocess.run(
        command,
        env=environments.inherited(PACKAGE),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    wall = time.perf_counter() - start
    run = history.read(out).latest if out.exists() else None
    if done.returncode != 0 or run is None:
        raise RuntimeError(f"{name}: exit code {done.returncode}: {done.stderr.strip()[-2000:]}")
    if run["status"] != "ok":
        raise RuntimeError(f"{name}: {run['status']}: {run['reason']}")
    return CellCost(wall, run)
