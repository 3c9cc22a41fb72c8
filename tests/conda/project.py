"""A copy of the project in a folder of its own, run with or without the test double of conda."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.conda import double
from tests.conda.channel.python import SERIES

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("Snakefile", "workflow", "config", "envs", "profiles")
MACHINE = "here"
CELL = "gemm.float32.64x64x64.t1"
STUDY: dict[str, Any] = {
    "study": "tiny",
    "machine": MACHINE,
    "grid": [{"routine": "gemm", "dtypes": ["float32"], "shapes": [64], "threads": 1}],
    "sampling": {
        "invocations": 1,
        "warmup_s": 0.01,
        "sample_s": 0.02,
        "min_samples": 3,
        "batch_s": 0.001,
    },
    "evidence": False,
}
"""One small product, measured once: these tests are about environments."""
UNTIL = ("--until", "measure")
"""Without the report, which is not what most of these tests are about."""


class Project:
    """`run` starts Snakemake in it, of the Python `python`; `runs` reads what was recorded."""

    def __init__(self, folder: Path, channel: Path, cache: Path) -> None:
        self.folder, self.python = folder, sys.executable
        folder.mkdir(parents=True)
        for part in PARTS:
            source = ROOT / part
            if source.is_dir():
                shutil.copytree(
                    source, folder / part, ignore=shutil.ignore_patterns("__pycache__", "*.pyc")
                )
            else:
                shutil.copy(source, folder / part)
        self.variables = double.variables(channel, cache, clean(os.environ))
        if SERIES != "3.11":  # the files name 3.11; the double only has the Python at hand
            for file in (folder / "envs").glob("*.yaml"):
                file.write_text(file.read_text().replace("python 3.11.*", f"python {SERIES}.*"))
        self.study(STUDY)

    def study(self, study: Mapping[str, Any]) -> None:
        (self.folder / "study.yaml").write_text(yaml.safe_dump(dict(study)))

    def study_of_size(self, size: int) -> None:
        """The tiny study with products of another size."""
        self.study({**STUDY, "grid": [{**STUDY["grid"][0], "shapes": [size]}]})

    def conda_text(self, *arguments: str, **variables: str) -> str:
        """What the test double of conda prints."""
        command = [str(double.BIN / "conda"), *arguments]
        return subprocess.check_output(command, env={**self.variables, **variables}, text=True)

    def conda(self, *arguments: str) -> dict[str, Any]:
        """What it prints as JSON."""
        answer: dict[str, Any] = json.loads(self.conda_text(*arguments))
        return answer

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run Snakemake on the tiny study; its standard error goes into stdout."""
        command = [self.python, "-m", "snakemake", "--cores", "1", "--configfile", "study.yaml"]
        return subprocess.run(
            [*command, *arguments],
            cwd=self.folder,
            env={**self.variables, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=300,
        )

    def measure(
        self, backend: str, *arguments: str, deploy: str = "conda", **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Measure the tiny cell with one backend, without the report. deploy: conda or venv."""
        method = ["--use-conda"] if deploy == "conda" else []
        until = ("--until", "measure_modules_1") if "--use-envmodules" in arguments else UNTIL
        return self.run(*method, *arguments, *until, "--", self.target(backend), **variables)

    def target(self, backend: str, cell: str = CELL) -> str:
        """The file of a cell, for Snakemake."""
        return f"results/{MACHINE}/{backend}/{cell}.jsonl"

    def stamp(self, environment: str) -> int:
        """When a venv was built, as its own file's time."""
        return (self.folder / f".envs/{environment}/gemmgrid.json").stat().st_mtime_ns

    def prefix(self, backend: str) -> Path:
        """The environment in which the backend's last run was to be measured."""
        return Path(self.runs(backend)[-1]["environment"]["prefix"])

    def register(self, name: str, **entry: Any) -> None:
        """Add a backend to the project's registry, or replace it."""
        file = self.folder / "config/backends.yaml"
        registry = yaml.safe_load(file.read_text())
        platforms = registry["numpy-openblas"]["platforms"]
        defaults = {"adapter": "numpy", "platforms": platforms, "dtypes": ["float32"]}
        registry[name] = registry.get(name, defaults) | entry
        file.write_text(yaml.safe_dump(registry))

    def runs(self, backend: str, cell: str = CELL) -> list[dict[str, Any]]:
        """The recorded runs of a cell, oldest first."""
        path = self.folder / self.target(backend, cell)
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def environments(self, prefix: str = ".snakemake/conda") -> dict[Path, str]:
        """The conda environments that Snakemake made, with the file that each was made from."""
        files = (self.folder / prefix).glob("*.yaml")
        return {
            path.with_suffix(""): path.read_text()
            for path in files
            if path.with_suffix("").is_dir()
        }


def clean(base: Mapping[str, str]) -> dict[str, str]:
    """The shell's variables, without any real conda on the PATH and without choices of kernels."""
    folders = [
        one for one in base["PATH"].split(os.pathsep) if not os.access(f"{one}/conda", os.X_OK)
    ]
    dropped = ("CONDA", "MAMBA", "OPENBLAS_", "MKL_", "OMP_", "BLIS_", "PYTEST", "PYTHON")
    kept = {name: value for name, value in base.items() if not name.startswith(dropped)}
    return {**kept, "PATH": os.pathsep.join(folders)}
