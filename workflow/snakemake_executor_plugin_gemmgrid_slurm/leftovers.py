"""What a killed run has left at SLURM: found by the run's name, which a file keeps, and ended.

The name is written before the first job is sent, so that no moment is left in which SLURM has a job
that nobody would find.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

from snakemake_interface_common.exceptions import WorkflowError

from gemmgrid.plan.slurm.ask import Asking, ask
from gemmgrid.records.files import write_atomically

SCHEMA = 2
GONE_S = 60.0
"""Seconds that cancelled jobs have to leave the queue."""


def say(text: str) -> None:
    print(f"gemmgrid: {text}", file=sys.stderr, flush=True)


def end_leftovers(
    file: Path, asking: Asking = ask, say: Callable[[str], None] = say, pause_s: float = 1.0
) -> None:
    """End the jobs of earlier runs that this file names, and wait until they are gone.

    WorkflowError where nobody knows what is left, or it cannot be ended.
    """
    runs = _runs(file)
    left = _alive(runs, asking)
    if left is None:
        raise WorkflowError(
            f"an interrupted run may have left allocations at SLURM ({file}), and squeue does not "
            "answer, so nobody knows. Try again when it does; or, when none is there any more, "
            "remove that file."
        )
    if left:
        jobs = f"SLURM jobs {', '.join(left)} of an interrupted run"
        problem = asking("scancel", *left, limit_s=60.0).reason
        if problem:
            raise WorkflowError(
                f"{jobs} could not be cancelled: {problem}. End them, and start again: "
                f"scancel {' '.join(left)}"
            )
        end = time.monotonic() + GONE_S
        while _alive(runs, asking) != [] and time.monotonic() < end:
            time.sleep(pause_s)
        say(f"cancelled {jobs}: what they measured is kept, the rest is sent again")
    if runs:
        file.unlink(missing_ok=True)


def _alive(runs: list[str], asking: Asking) -> list[str] | None:
    """Jobs of these runs that wait or run; None where the queue does not answer."""
    if not runs:
        return []
    # --all: hidden partitions too.
    answer = asking("squeue", "-h", "--all", "--me", f"--name={','.join(runs)}", "-o", "%i")
    return None if answer.text is None else answer.text.split()


def _runs(file: Path) -> list[str]:
    try:
        runs = json.loads(file.read_text(encoding="utf-8"))["runs"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [run for run in runs if isinstance(run, str)] if isinstance(runs, list) else []


class Campaign:
    """The jobs of one run, by the name that it gives them in the queue."""

    def __init__(self, file: Path, name: str, asking: Asking = ask) -> None:
        self.file, self.name, self.asking = file, name, asking
        self.begun = False

    def begin(self, say: Callable[[str], None] = say, pause_s: float = 1.0) -> None:
        """Before the first job: end what earlier runs left, and keep this run's name."""
        if self.begun:
            return
        end_leftovers(self.file, self.asking, say, pause_s)
        try:
            content = json.dumps({"schema": SCHEMA, "runs": [self.name]})
            write_atomically(self.file, content.encode())
        except OSError as error:
            say(
                f"{self.file} cannot be written: {error.strerror}. Should this run be killed, end "
                f"its SLURM jobs yourself: scancel --me --name={self.name}"
            )
        self.begun = True

    def cancel(self) -> str | None:
        """End this run's jobs; returns why that failed."""
        return self.asking("scancel", "--me", f"--name={self.name}", limit_s=60.0).reason

    def close(self) -> None:
        """Nothing is left for a later run."""
        if self.begun:
            self.file.unlink(missing_ok=True)
