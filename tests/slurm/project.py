"""A project whose cells go to the test cluster."""

from __future__ import annotations

import copy
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tests.workflow.project import ROOT, TINY, Project

MACHINES: dict[str, dict[str, Any]] = {
    "icelake": {"partition": "cpu", "constraint": "icelake", "cpus": 2},
    "milan": {"partition": "cpu", "constraint": "milan", "cpus": 2},
    "h200": {"partition": "gpu", "gres": "gpu:h200:1", "cpus": 2},
    "fat": {"partition": "fat", "constraint": "fat", "cpus": 64},
}


class SlurmProject(Project):
    """`machines` go into config/machines.yaml, their names into the study."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.send_to(icelake=MACHINES["icelake"])
        # The environments are built once for all tests.
        (folder / ".envs").symlink_to(ROOT / ".envs")

    @property
    def command(self) -> list[str]:
        return [
            *(sys.executable, "-m", "snakemake", "--profile", "profiles/slurm"),
            *("--seconds-between-status-checks", "2", "--latency-wait", "20"),
        ]

    def local(self, *arguments: str, code: int | None = 0) -> str:
        """The same with the local executor."""
        return Project.snakemake(self, *arguments, code=code, command=super().command)

    def send_to(self, **machines: dict[str, Any]) -> None:
        """Describe these machines, and have the study measure on all of them."""
        file = self.folder / "config/machines.yaml"
        file.write_text(yaml.safe_dump(machines, sort_keys=False))
        self.configure({**self.tiny(), "machines": list(machines)})

    def tiny(self, shapes: list[int] | None = None, sample_s: float = 0.02) -> dict[str, Any]:
        """A small study; with longer samples its cells take about twice `sample_s` and a bit."""
        study = copy.deepcopy(TINY)
        del study["machine"]
        if shapes:
            study["grid"][0]["shapes"] = shapes
        study["sampling"]["sample_s"] = sample_s
        study["sampling"]["interval"] = 0.0001
        return study

    def statuses(self) -> dict[str, list[str]]:
        """Every cell's statuses over time, by machine/backend/cell."""
        return {
            f"{machine}/{name}": [run["status"] for run in runs]
            for machine in self.machines()
            for name, runs in self.cells(machine).items()
        }

    def machines(self) -> list[str]:
        folders = (self.folder / "results").glob("[!.]*/")
        return sorted(folder.name for folder in folders if folder.name != "tables")

    def counts_of(self, machine: str) -> dict[str, int]:
        return {name: len(runs) for name, runs in self.cells(machine).items()}

    def kept(self) -> list[Path]:
        """Runs that jobs have kept and no history holds yet."""
        return sorted((self.folder / "results/.plan/parts").rglob("*.json"))


def interrupt(process: subprocess.Popen[str], number: signal.Signals) -> None:
    """Send a signal as the terminal does: to the process and all it started here."""
    os.killpg(process.pid, number)


def wait_until(true: Callable[[], bool], seconds: float = 150, what: str = "it") -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"waited {seconds} s for {what}"
        time.sleep(0.2)
