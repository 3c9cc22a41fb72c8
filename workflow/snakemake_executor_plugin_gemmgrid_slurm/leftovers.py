"""What a killed run has left at SLURM: found by the run's name, which a file keeps, and ended.

The name is written before the first job is sent, so that no moment is left in which SLURM has a job
that nobody would find.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

from snakemake_interface_common.exceptions import WorkflowError

from gemmgrid.plan.slurm.ask import Asking, ask
from gemmgrid.records.history import write_atomically

SCHEMA = 2
GONE_S = 60.0
"""Seconds that cancelled jobs have to leave the queue."""


class Leftovers:
    """The names of runs whose jobs may be at SLURM: earlier ones' and this one's."""

    def __init__(self, file: Path, own: str, asking: Asking = ask, pause_s: float = 1.0) -> None:
        self.file, self.own, self.asking, self.pause_s = file, own, asking, pause_s
        self._begun = False
        self._lock = threading.Lock()

    def end(self, say: Callable[[str], None]) -> None:
        """Before the first job: end what earlier runs left, and keep this run's name.

        WorkflowError where nobody knows what is left, or it cannot be ended.
        """
        with self._lock:
            if self._begun:
                return
            earlier = self._earlier()
            left = self._alive(earlier)
            if left is None:
                raise WorkflowError(
                    f"an interrupted run may have left allocations at SLURM ({self.file}), and "
                    "squeue does not answer, so nobody knows. Try again when it does; or, when "
                    "none is there any more, remove that file."
                )
            if left:
                self._end(earlier, left, say)
            try:
                content = json.dumps({"schema": SCHEMA, "runs": [self.own]})
                write_atomically(self.file, content.encode())
            except OSError as error:
                say(
                    f"{self.file} cannot be written: {error.strerror}. Should this run be killed, "
                    f"end its SLURM jobs yourself: scancel --me --name={self.own}"
                )
            self._begun = True

    def cancel(self) -> str | None:
        """End this run's jobs; returns why that failed."""
        return self.asking("scancel", "--me", f"--name={self.own}", limit_s=60.0).reason

    def close(self) -> None:
        """Nothing is left for a later run."""
        if self._begun:
            self.file.unlink(missing_ok=True)

    def _end(self, runs: list[str], left: list[str], say: Callable[[str], None]) -> None:
        jobs = f"SLURM jobs {', '.join(left)} of an interrupted run"
        problem = self.asking("scancel", *left, limit_s=60.0).reason
        if problem:
            raise WorkflowError(
                f"{jobs} could not be cancelled: {problem}. End them, and start again: "
                f"scancel {' '.join(left)}"
            )
        end = time.monotonic() + GONE_S
        while self._alive(runs) != [] and time.monotonic() < end:
            time.sleep(self.pause_s)
        say(f"cancelled {jobs}: what they measured is kept, the rest is sent again")

    def _alive(self, runs: list[str]) -> list[str] | None:
        """Jobs of these runs that wait or run; None where the queue does not answer."""
        if not runs:
            return []
        # --all: hidden partitions too.
        names = f"--name={','.join(runs)}"
        answer = self.asking("squeue", "-h", "--all", "--me", names, "-o", "%i")
        return None if answer.text is None else answer.text.split()

    def _earlier(self) -> list[str]:
        try:
            runs = json.loads(self.file.read_text(encoding="utf-8"))["runs"]
        except (OSError, ValueError, KeyError, TypeError):
            return []
        return [run for run in runs if isinstance(run, str)] if isinstance(runs, list) else []
