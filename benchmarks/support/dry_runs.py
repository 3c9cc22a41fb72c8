"""A grid of many cells, a bare workflow of as many jobs, and what their dry runs take."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from support import ROOT

BACKENDS = ("numpy-openblas", "scipy-openblas", "cblas-openblas", "torch-cpu", "jax-cpu")
DTYPES = ("float32", "float64")
THREADS = (1, 2)
PER_SHAPE = len(BACKENDS) * len(DTYPES) * len(THREADS)
LINKED = ("Snakefile", "workflow", "config", "envs", "profiles")
"""What a checkout consists of, as far as a workflow is concerned."""

_BARE = """\
rule all:
    input:
        expand("out/{{number}}.txt", number=range({count})),


rule job:
    output:
        "out/{{number}}.txt",
    shell:
        "echo {{wildcards.number}} > {{output}}"
"""


@dataclass
class Cost:
    """What a process and its children took."""

    seconds: float
    cpu_s: float
    peak_mb: float


def config_of(count: int) -> dict[str, object]:
    """A study with so many cells: backends × dtypes × threads × shapes; a multiple of PER_SHAPE."""
    if count % PER_SHAPE:
        raise ValueError(f"{count} cells are no multiple of {PER_SHAPE}")
    block = {
        "routine": "gemm",
        "backends": list(BACKENDS),
        "dtypes": list(DTYPES),
        "shapes": [16 + n for n in range(count // PER_SHAPE)],
        "threads": list(THREADS),
    }
    return {"study": "many", "grid": [block]}


def lay_out_grid(folder: Path, count: int) -> list[str]:
    """A checkout without results in `folder`; the command of its dry run."""
    for name in LINKED:
        (folder / name).symlink_to(ROOT / name)
    (folder / "many.yaml").write_text(json.dumps(config_of(count)))  # JSON is YAML
    return [*_snakemake(), "--configfile", "many.yaml", "--config", "deploy=venv"]


def lay_out_bare(folder: Path, count: int) -> list[str]:
    """A Snakefile of trivial shell jobs in `folder`; the command of its dry run."""
    (folder / "Snakefile").write_text(_BARE.format(count=count))
    (folder / "profiles").symlink_to(ROOT / "profiles")
    return _snakemake()


def _snakemake() -> list[str]:
    return [sys.executable, "-m", "snakemake", "--dry-run", "--cores", "1"]


def run(command: list[str], folder: Path) -> Cost:
    """Wall time and peak resident memory of a command; RuntimeError with its last words."""
    said = folder / "said.txt"
    with said.open("wb") as out:
        start = time.perf_counter()
        process = subprocess.Popen(command, cwd=folder, stdout=out, stderr=out)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        tail = said.read_text(errors="replace").strip()[-2000:]
        raise RuntimeError(f"{' '.join(command)}: exit code {process.returncode}: {tail}")
    unit = 1 if sys.platform == "darwin" else 1024
    return Cost(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * unit / 1e6)
