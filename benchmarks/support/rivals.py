"""Others that time the same product: a C program, torch.utils.benchmark, pyperf.

Each answers one question: the median time of a call, in seconds, from one fresh start of it. They
run with the variables and on the operands that gemmgrid's own processes have.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path
from statistics import median
from typing import Any, Protocol

from gemmgrid.measure.supervise.request import Environment
from gemmgrid.plan.environments import uv
from gemmgrid.records.cell import Cell
from support import PACKAGE, ROOT
from support.environments import ask, variables

SOURCES = ROOT / "benchmarks" / "fidelity"
REQUIREMENTS = ROOT / "benchmarks" / "requirements.txt"
LARGEST_ERROR = {"float32": 1e-5, "float64": 1e-13}
"""What the C program's own check may find; anything more is no product of its operands."""

_LIBRARY = """
import json
from gemmgrid.measure import libraries
from gemmgrid.measure.adapters.numpy import extension_file
blas = libraries.serving(extension_file(), libraries.CBLAS_SYMBOLS)
print(json.dumps(None if blas is None else {"affixes": blas.affixes, **blas.to_json()}))
"""
_READ_PYPERF = """
import json, sys
import pyperf
print(json.dumps(pyperf.Benchmark.load(sys.argv[1]).median()))
"""


class Rival(Protocol):
    """Something that times a cell's product by its own means."""

    name: str

    def seconds(self, cell: Cell) -> float:
        """Median seconds of a call, from a fresh process; RuntimeError where that fails."""


class CProgram:
    """fidelity/gemm.c on the very file of the BLAS that the environment's NumPy calls."""

    name = "C"

    def __init__(self, environment: Environment, settings: dict[str, Any], folder: Path) -> None:
        self.settings = settings
        self.library = ask([environment.python, "-s", "-c", _LIBRARY], variables(1))
        if not self.library or self.library["family"] != "openblas":
            raise RuntimeError(f"NumPy of {environment.prefix} calls no OpenBLAS: {self.library}")
        self.program = folder / "gemm"
        integer = {"ilp64": "int64_t", "lp64": "int32_t"}[self.library["interface"]]
        _compile(SOURCES / "gemm.c", self.program, [f"-DBLASINT={integer}"])

    def seconds(self, cell: Cell) -> float:
        prefix, suffix = self.library["affixes"]
        names = ("warmup_s", "batch_s", "sample_s", "min_samples", "max_samples")
        policy = [str(self.settings[name]) for name in names]
        command = [str(self.program), self.library["file"], prefix, suffix]
        found = ask([*command, cell.dtype, str(cell.n), *policy], variables(cell.threads))
        if found["threads"] != cell.threads:
            raise RuntimeError(f"C program: {found['threads']} threads, not {cell.threads}")
        if not found["check"] <= LARGEST_ERROR[cell.dtype]:
            raise RuntimeError(f"C program: the product is wrong by {found['check']:.2g}")
        return median(found["elapsed_ns"]) / found["inner"] / 1e9


class TorchTimer:
    """torch.utils.benchmark.Timer.blocked_autorange in the environment that has torch."""

    name = "torch.utils.benchmark"

    def __init__(self, environment: Environment, settings: dict[str, Any]) -> None:
        self.python, self.settings = environment.python, settings

    def seconds(self, cell: Cell) -> float:
        script = str(SOURCES / "torch_timer.py")
        command = [self.python, "-s", script, cell.name, str(self.settings["sample_s"])]
        return float(ask(command, variables(cell.threads))["median_s"])


class Pyperf:
    """pyperf beside the environment's NumPy: one calibration and one worker process a start."""

    name = "pyperf"

    def __init__(self, environment: Environment, settings: dict[str, Any], folder: Path) -> None:
        self.environment, self.folder = environment, folder
        self.least_s = settings["sample_s"] / 3
        self.site = folder / "site"
        command = [*uv.command(), "pip", "install", "--quiet", "--target", str(self.site)]
        command += ["--python", environment.python, "--requirement", str(REQUIREMENTS)]
        done = subprocess.run(
            command,
            env=uv.environment(os.environ),
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"pyperf cannot be installed: {done.stderr.strip()[-1000:]}")

    def seconds(self, cell: Cell) -> float:
        out = self.folder / "pyperf.json"
        out.unlink(missing_ok=True)
        env = variables(cell.threads, (PACKAGE, self.site))
        # pyperf's workers see none of the variables that it is not told to hand on.
        handed_on = sorted(name for name in env if name.startswith("PYTHON") or "THREADS" in name)
        command = [self.environment.python, "-s", str(SOURCES / "pyperf_timer.py")]
        command += ["--processes", "1", "--values", "3", "--warmups", "1", "--quiet"]
        command += ["--min-time", str(self.least_s), "--inherit-environ", ",".join(handed_on)]
        command += ["--output", str(out), cell.name]
        done = subprocess.run(command, env=env, capture_output=True, encoding="utf-8", check=False)
        if done.returncode != 0 or not out.exists():
            raise RuntimeError(f"pyperf: {(done.stderr or done.stdout).strip()[-1000:]}")
        return float(ask([self.environment.python, "-s", "-c", _READ_PYPERF, str(out)], env))


def rival(
    name: str, environment: Environment, settings: dict[str, Any], folder: Path
) -> CProgram | TorchTimer | Pyperf:
    """The rival of that name (C, torch, pyperf); RuntimeError where it cannot be made ready."""
    if name == "C":
        return CProgram(environment, settings, folder)
    if name == "torch":
        return TorchTimer(environment, settings)
    return Pyperf(environment, settings, folder)


def _compile(source: Path, program: Path, flags: list[str]) -> None:
    """RuntimeError without a C compiler, and with its message where it refuses the source."""
    compiler = shlex.split(os.environ.get("CC", "")) or [_compiler()]
    command = [*compiler, "-O2", *flags, "-o", str(program), str(source), "-ldl", "-lm"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()[-2000:]}")


def _compiler() -> str:
    for name in ("gcc", "cc", "clang"):
        if found := shutil.which(name):
            return found
    raise RuntimeError("no C compiler on the PATH (gcc, cc or clang); set CC to yours")
