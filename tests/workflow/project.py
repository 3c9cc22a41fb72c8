"""A copy of the project in a folder of its own, with commands run in it as a user would."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from gemmgrid.records import history

ROOT = Path(__file__).resolve().parents[2]
MACHINE = "here"
TINY: dict[str, Any] = {
    "study": "tiny",
    "machine": MACHINE,
    "evidence": False,
    "exclude": [],
    "grid": [
        {
            "routine": "gemm",
            "backends": ["numpy-openblas"],
            "shapes": [32, 48],
            "threads": [1],
        }
    ],
    "sampling": {
        **{"invocations": 2, "rounds": 1},
        **{"warmup_s": 0.01, "sample_s": 0.02, "min_samples": 3},
    },
    "budget": {"cell_s": 30},
}


class Project:
    """The project's tracked and new files, copied; nothing in it is shared with the original."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            check=True,
        )
        for name in filter(None, listed.stdout.decode().split("\0")):
            source, target = ROOT / name, folder / name
            if source.is_file() and not name.startswith("tests/"):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)
        self.study = folder / "study.yaml"
        self.configure(TINY)

    def configure(self, study: dict[str, Any]) -> None:
        self.study.write_text(yaml.safe_dump(study, sort_keys=False))

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-m", "snakemake", "--cores", "1"]

    def snakemake(
        self,
        *arguments: str,
        code: int | None = 0,
        command: list[str] | None = None,
        **variables: str,
    ) -> str:
        """Run Snakemake; what it printed, both streams together. `code` None: any exit code."""
        done = subprocess.run(
            [*(command or self.command), *arguments, "--configfile", str(self.study)],
            cwd=self.folder,
            env=environment(**variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=300,
        )
        if code is not None:
            assert done.returncode == code, done.stdout
        return done.stdout

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start Snakemake in a process group of its own, as a shell does."""
        return subprocess.Popen(
            [*self.command, *arguments, "--configfile", str(self.study)],
            cwd=self.folder,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            # A shell's background job ignores Ctrl-C, and so would all that it starts.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
        )

    def cells(self, machine: str = MACHINE) -> dict[str, list[dict[str, Any]]]:
        """Every cell's runs, by backend and cell name."""
        found = {}
        for path in sorted((self.folder / "results" / machine).glob("*/*.jsonl")):
            read = history.read(path)
            assert read.problems == [], read.problems
            found[f"{path.parent.name}/{path.stem}"] = read.runs
        return found

    def counts(self) -> dict[str, int]:
        return {name: len(runs) for name, runs in self.cells().items()}

    def table(self, name: str = "cells") -> Any:
        import pandas

        return pandas.read_parquet(self.folder / f"results/tables/{name}.parquet")

    def page(self) -> str:
        return (self.folder / "reports/index.html").read_text()

    def plan(self) -> list[dict[str, Any]]:
        text = (self.folder / "results/.plan/plan.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines()]

    def add_backend(self, name: str, **entry: Any) -> None:
        """Add an entry to the registry and its text as it stands to the study's first block."""
        registry = self.folder / "config/backends.yaml"
        registry.write_text(registry.read_text() + "\n" + yaml.safe_dump({name: entry}))

    def script(self, name: str, body: str) -> str:
        """A program that stands in for a backend's Python: a test double of a broken one."""
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return str(path)


def environment(**variables: str) -> dict[str, str]:
    """The shell's environment without what the test run itself set."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**kept, **variables}


def measured(output: str) -> int:
    """How many cells the output says were measured."""
    lines = re.findall(r"^\[ *\d+/\d+\] .*", output, re.M)
    return sum("  round " not in line for line in lines)
