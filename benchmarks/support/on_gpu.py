"""The cells of on_gpu.sh, each measured by gemmgrid's own supervisor. Standard library only.

PyTorch is imported by the measured processes, never here.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from gemmgrid.records import history
from gemmgrid.records.cell import Cell
from support import PACKAGE, ROOT, jobs

MINUTES = 5.0
SIZES = (4096, 8192, 2048, 1024)
"""In the order of their weight, should the time run out."""
EVIDENCE_SIZE = 4096
"""The size at which a further process finds out which kernel really ran."""
TF32 = {"float32_matmul_precision": "high"}
PRECISIONS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "float32": ("float32", "", {}),
    "tf32": ("float32", "-tf32", TF32),
    "float16": ("float16", "", {}),
    "bfloat16": ("bfloat16", "", {}),
}
"""dtype, what is added to the backend's name, the adapter's options."""
PROBE = "import torch; print(torch.__version__, torch.cuda.is_available())"
SETTINGS: dict[str, Any] = {
    "invocations": 3,
    "rounds": 1,
    "warmup_s": 0.3,  # a GPU's clocks need longer than a CPU's to settle
    "sample_s": 0.3,
    "min_samples": 10,
    "max_samples": 2000,
    "interval": 0.01,
    "batch_s": 0.001,
    "budget_s": 60,
    "memory_fraction": 0.8,
    "evidence": False,
}
LEAST_S = 5.0
"""Seconds below which no cell is begun: starting PyTorch takes about as long."""
QUICK = {"invocations": 1, "warmup_s": 0.01, "sample_s": 0.02, "min_samples": 3}


@dataclass
class Task:
    """One cell of one backend."""

    backend: str
    cell: Cell
    options: dict[str, Any]

    def spec(self, device: str, python_path: str) -> dict[str, Any]:
        """What a plan would write; the site's own PYTHONPATH goes to the measured processes."""
        return {
            "cell": self.cell.to_json(),
            "backend": self.backend,
            "adapter": "torch",
            "device": device,
            "blas": None,
            "options": self.options,
            "variables": {"PYTHONPATH": python_path} if python_path else {},
        }


def tasks(device: str, sizes: Sequence[int], precisions: Sequence[str]) -> Iterator[Task]:
    """Every precision of a size, then of the next."""
    for n in sizes:
        for dtype, suffix, options in (PRECISIONS[name] for name in precisions):
            yield Task(f"torch-{device}{suffix}", Cell("gemm", dtype, (n, n, n), 1), options)


def machine_name() -> str:
    """The name that the workflow gives this machine."""
    # The plan's own package needs PyYAML, its module that knows the hardware only the standard
    # library: a package without its __init__ stands in where the real one is not loaded.
    package = ModuleType("gemmgrid.plan")
    package.__path__ = [str(PACKAGE / "gemmgrid" / "plan")]
    sys.modules.setdefault("gemmgrid.plan", package)
    from gemmgrid.plan.hardware import machine_name

    return machine_name()


class Campaign:
    """The cells one after another, until the time is up."""

    def __init__(self, given: argparse.Namespace, results: Path, folder: Path) -> None:
        self.given, self.results, self.folder = given, results, folder
        # on_gpu.sh puts its own folder before what the site's users have.
        self.python_path = os.environ.get("PYTHONPATH", "").partition(os.pathsep)[2]
        self.end = time.monotonic() + 60 * given.minutes
        self.longest: dict[int, float] = {}

    @property
    def left_s(self) -> float:
        return self.end - time.monotonic()

    def has_time(self, task: Task) -> bool:
        """Whether a cell as long as the longest of its size so far still fits."""
        return self.left_s > max(LEAST_S, self.longest.get(task.cell.n, 0.0))

    def _settings(self, task: Task) -> dict[str, Any]:
        """What the workflow would tell the supervisor, with what is left as the budget."""
        return {
            **SETTINGS,
            **(QUICK if self.given.quick else {}),
            "evidence": self.given.evidence and task.cell.n == EVIDENCE_SIZE,
            "budget_s": min(SETTINGS["budget_s"], max(LEAST_S, self.left_s - LEAST_S)),
        }

    def measure(self, task: Task) -> str:
        """Measure one cell, which prints its line; returns the status of its run."""
        given = self.given
        out = self.results / given.machine / task.backend / f"{task.cell.name}.jsonl"
        before = history.read(out).latest if out.exists() else None
        place = {"deploy": "none", "environment": f"torch-{given.device}", "modules": []}
        command = jobs.lay_out(
            self.folder,
            given.machine,
            task.spec(given.device, self.python_path),
            out,
            self._settings(task),
            {**place, "python": sys.executable},
        )
        start = time.monotonic()
        process = subprocess.Popen(
            command, env={**os.environ, "PYTHONPATH": str(PACKAGE)}, stderr=subprocess.STDOUT
        )
        try:
            process.wait(max(1.0, self.left_s))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)  # the supervisor ends its processes and keeps none
            process.wait(30)
            return "out of time"
        seconds = time.monotonic() - start
        self.longest[task.cell.n] = max(self.longest.get(task.cell.n, 0.0), seconds)
        run = history.read(out).latest if out.exists() else None
        if run is None or (before and run["id"] == before["id"]):
            return f"no run was kept (exit code {process.returncode})"
        return str(run["status"])


def main(arguments: list[str] | None = None) -> int:
    given = _arguments(arguments)
    probe = subprocess.run(
        [sys.executable, "-c", PROBE], capture_output=True, encoding="utf-8", check=False
    )
    version, _, cuda = probe.stdout.strip().partition(" ")
    if probe.returncode != 0 or (given.device == "cuda" and cuda != "True"):
        words = probe.stderr.strip()[-500:] or f"torch {version} finds no CUDA device here"
        print(f"{words}. Try --device cpu, or another Python: PYTHON=…", file=sys.stderr)
        return 2
    place = f"{given.machine}, {given.device}"
    print(f"torch {version} on {place}, at most {given.minutes:g} minutes", flush=True)
    ended: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="gemmgrid-gpu-") as folder:
        packed = os.environ.get("OUT") if given.out is None else None
        results = Path(folder, "results") if packed else given.out or ROOT / "results"
        campaign = Campaign(given, results, Path(folder))
        for task in tasks(given.device, given.sizes, given.precisions):
            name = f"{task.backend} {task.cell.name}"
            ended[name] = campaign.measure(task) if campaign.has_time(task) else "out of time"
        kept = results / given.machine
        if packed and kept.is_dir():
            kept = Path(packed, f"{given.machine}.tar.gz")
            kept.parent.mkdir(parents=True, exist_ok=True)
            with tarfile.open(kept, "w:gz") as archive:
                archive.add(results / given.machine, arcname=given.machine)
    late = [name for name, status in ended.items() if status == "out of time"]
    bad = {name: status for name, status in ended.items() if status not in ("ok", "out of time")}
    print(f"{len(ended) - len(late) - len(bad)} of {len(ended)} cells ok; the runs: {kept}")
    if late:
        print(f"not begun or not finished in the time: {', '.join(late)}")
    for name, status in bad.items():
        print(f"{name}: {status}")
    return 1 if bad or len(late) == len(ended) else 0


def _arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="on_gpu.sh", description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--machine", help="its name under results/ (one made from the hardware)")
    parser.add_argument("--out", type=Path, help="folder of the machines' folders (results/)")
    parser.add_argument("--sizes", type=int, nargs="+", help=f"n of the n³ products {SIZES}")
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=list(PRECISIONS))
    parser.add_argument("--minutes", type=float, default=MINUTES, help="time for all (5)")
    parser.add_argument("--quick", action="store_true", help="small products, one short process")
    parser.add_argument(
        "--no-evidence", dest="evidence", action="store_false", help="do not ask for the kernels"
    )
    given = parser.parse_args(arguments)
    given.machine = given.machine or machine_name()
    given.sizes = given.sizes or ((64, 256) if given.quick else SIZES)
    return given


if __name__ == "__main__":
    sys.exit(main())
