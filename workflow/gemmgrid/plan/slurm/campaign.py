"""The allocations of one workflow run: what was sent, what ended and why, what an earlier run left.

Kept in a file, so that a run that was killed can be taken up: its allocations may still be there.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from gemmgrid.plan.slurm.ask import ask
from gemmgrid.plan.slurm.outcome import Asking, Outcome
from gemmgrid.records.files import write_atomically

SCHEMA = 1


@dataclass
class Allocation:
    """Parts of cells that were sent together, by a name each; outcome: once it failed."""

    job: str | None
    machine: str
    cells: list[str]
    outcome: Outcome | None = None


@dataclass
class Campaign:
    """All allocations of this run; `file` is where the next run looks for what is left.

    Jobs that an earlier run left there stay in it until a run ends well.
    """

    file: Path
    allocations: list[Allocation] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.earlier = _jobs_of(self.file)

    def add(self, job: str | None, machine: str, cells: Iterable[str]) -> Allocation:
        """Note an allocation that SLURM took (or refused: job is None)."""
        with self.lock:
            allocation = Allocation(job, machine, sorted(cells))
            self.allocations.append(allocation)
            self._write()
        return allocation

    def find(self, job: str) -> Allocation | None:
        return next((one for one in self.allocations if one.job == job), None)

    def outcomes(self) -> dict[str, Outcome]:
        """A part's name → how the last allocation that held it ended, if that failed."""
        found: dict[str, Outcome] = {}
        for one in self.allocations:
            for cell in one.cells:
                if one.outcome:
                    found[cell] = one.outcome
                else:
                    found.pop(cell, None)
        return found

    def close(self) -> None:
        """Nothing is left for a later run."""
        self.file.unlink(missing_ok=True)

    def _write(self) -> None:
        jobs = [*self.earlier, *(one.job for one in self.allocations if one.job)]
        try:
            write_atomically(self.file, json.dumps({"schema": SCHEMA, "jobs": jobs}).encode())
        except OSError as error:
            # SLURM has the job: to fail now would lose it from Snakemake's sight.
            print(
                f"gemmgrid: {self.file} cannot be written: {error.strerror}. Should this run be "
                f"killed, end its SLURM jobs yourself: scancel {' '.join(jobs)}",
                file=sys.stderr,
                flush=True,
            )


def left_behind(file: Path, asking: Asking = ask) -> list[str] | None:
    """SLURM jobs of an earlier run that still wait or run; None where the queue does not answer."""
    jobs = _jobs_of(file)
    if not jobs:
        return []
    # Ids come round again after some years or a reset: the name tells whether the job is ours.
    # --all: hidden partitions too.
    answer = asking("squeue", "-h", "--all", "--me", "-o", "%i %j")
    if answer.text is None:
        return None
    alive = [line.split(None, 1) for line in answer.text.splitlines()]
    return [job for job, *name in alive if job in jobs and name and "gemmgrid" in name[0]]


def cancel(jobs: list[str], asking: Asking = ask) -> str | None:
    """End these jobs; returns why that failed."""
    return asking("scancel", *jobs, limit_s=60.0).reason if jobs else None


def wait_until_gone(
    file: Path, asking: Asking = ask, seconds: float = 60.0, pause_s: float = 1.0
) -> bool:
    """Wait until the jobs of an earlier run have left the queue; whether they have."""
    end = time.monotonic() + seconds
    while left_behind(file, asking) != []:
        if time.monotonic() > end:
            return False
        time.sleep(pause_s)
    return True


def _jobs_of(file: Path) -> list[str]:
    try:
        jobs = json.loads(file.read_text())["jobs"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [job for job in jobs if isinstance(job, str)] if isinstance(jobs, list) else []
