"""Jobs that wait in SLURM's queue: why, where it is not just their turn, and which in vain."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Sequence

from gemmgrid.plan.slurm.ask import ask
from gemmgrid.plan.slurm.campaign import cancel
from gemmgrid.plan.slurm.outcome import Asking

USUAL = frozenset({"", "None", "(null)", "Priority", "Resources", "BeginTime", "Cleaning"})
"""Reasons of a job whose turn will come; SLURM's other words are worth a line."""
HOPELESS = re.compile(r"launch.failed.requeued.held", re.I)
"""SLURM starts such a job never again by itself: somebody has to release it."""
LOOK_S = 60.0
"""Seconds between two questions."""


class Held:
    """Called with the jobs that wait; says what is odd, once each, and gives up what is hopeless.

    given_up   job → why, for those that were cancelled
    """

    def __init__(self, asking: Asking = ask, clock: Callable[[], float] = time.monotonic) -> None:
        self.asking, self.clock = asking, clock
        self.given_up: dict[str, str] = {}
        self._told: dict[str, str] = {}
        self._looked: float | None = None

    def __call__(self, jobs: Sequence[str]) -> list[str]:
        """Those of the jobs that will never start; they are cancelled."""
        if not jobs or (self._looked is not None and self.clock() - self._looked < LOOK_S):
            return []
        self._looked = self.clock()
        answer = self.asking("squeue", "-h", "--all", "-o", "%i|%r", "-j", ",".join(jobs))
        for line in (answer.text or "").splitlines():
            job, _, reason = line.strip().partition("|")
            if job in jobs and reason not in USUAL and self._told.get(job) != reason:
                self._told[job] = reason
                print(f"gemmgrid: SLURM job {job} waits: {reason}", file=sys.stderr, flush=True)
            if job in jobs and HOPELESS.search(reason) and job not in self.given_up:
                self.given_up[job] = f"HELD: SLURM job {job} did not start and was held: {reason}"
                cancel([job], self.asking)
        return [job for job in jobs if job in self.given_up]
