"""Which of the jobs at SLURM have ended: the queue tells, and accounting where the queue does not.

The queue is asked once for all jobs of the run; accounting once for those that the queue does not
list as alive. Where neither answers (slurmctld and slurmdbd down) nothing is new, and that is said
once. A job that both have lost sight of is taken for gone after a while. A job that waits for a
reason other than its turn is told, and one that SLURM will never start again is given up.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable

from gemmgrid.plan.slurm.ask import Asking, ask
from snakemake_executor_plugin_gemmgrid_slurm.outcome import Outcome, outcome_of

ALIVE = frozenset(
    {
        *("PENDING", "RUNNING", "SUSPENDED", "CONFIGURING", "COMPLETING", "REQUEUED", "RESIZING"),
        *("REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SIGNALING", "STAGE_OUT", "STOPPED"),
        *("SPECIAL_EXIT",),
    }
)
"""States in which a job can still run, from squeue's manual."""
WAITING = frozenset({"PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT"})
"""Those in which it does not."""
UNCERTAIN = frozenset({"NODE_FAIL", "PREEMPTED"})
"""Ends from which SLURM may bring a job back: only the queue tells."""
ENDED = UNCERTAIN | {
    *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "OUT_OF_MEMORY", "TIMEOUT"),
}
USUAL = frozenset({"", "None", "(null)", "Priority", "Resources", "BeginTime", "Cleaning"})
"""Reasons of a job whose turn will come; SLURM's other words are worth a line."""
HOPELESS = re.compile(r"launch.failed.requeued.held", re.I)
"""SLURM starts such a job never again by itself: somebody has to release it."""
GONE_S = 120.0
"""Seconds after which a job that SLURM has lost sight of is taken for gone."""


class Watch:
    """The jobs of one run that have not ended.

    name   what they are called in the queue
    say    takes what the user should hear
    """

    def __init__(
        self,
        name: str,
        say: Callable[[str], None],
        asking: Asking = ask,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name, self.say, self.asking, self.clock = name, say, asking, clock
        self.jobs: dict[str, float | None] = {}
        """Since when SLURM has lost sight of a job, None while it has not."""
        self._lock = threading.Lock()
        self._in_queue: set[str] = set()  # jobs that the queue has listed
        self._reasons: dict[str, str] = {}  # why jobs wait, by the last answer
        self._told: dict[str, str] = {}  # a job and the reason that was told of it
        self._silent_since: float | None = None

    def add(self, job: str) -> None:
        with self._lock:
            self.jobs[job] = None

    def forget(self, job: str) -> None:
        with self._lock:
            self.jobs.pop(job, None)

    def look(self) -> dict[str, Outcome | None]:
        """The jobs that have ended: how, or None where all went well. Never raises."""
        with self._lock:  # another thread adds the jobs that are being sent
            jobs = dict(self.jobs)
        queued = self._queue()
        unsure = [
            job for job in jobs if not queued or queued.get(job) not in ALIVE - {"COMPLETING"}
        ]
        accounted = self._accounting(unsure) if unsure else {}
        if queued is None and accounted is None:
            self._hear(silent=True)
            return {}
        self._hear(silent=False)
        found: dict[str, Outcome | None] = {}
        for job in jobs:
            state = self._state(job, queued, accounted or {})
            if state == "COMPLETED":
                found[job] = None
            elif state in ENDED or state == "GONE":
                found[job] = outcome_of(job, self.asking)
        return found | dict(self._given_up(list(jobs)))

    def _state(
        self, job: str, queued: dict[str, str] | None, accounted: dict[str, str]
    ) -> str | None:
        """A job's state from both answers; None where neither says."""
        own, in_queue = accounted.get(job), (queued or {}).get(job)
        if own == "COMPLETED" and in_queue in (None, "COMPLETING", "COMPLETED"):
            return own
        if in_queue is not None:
            self._in_queue.add(job)
            self.jobs[job] = None
            return in_queue
        if own in ENDED:
            # Without the queue's word it may still come back.
            return None if own in UNCERTAIN and queued is None else own
        # Accounting is believed that a job is alive if the queue never listed it: a filter of the
        # site's may keep it from there.
        if queued is None or (own in ALIVE and job not in self._in_queue):
            return own
        since = self.jobs[job] = self.jobs[job] or self.clock()
        return "GONE" if self.clock() - since > GONE_S else None

    def _queue(self) -> dict[str, str] | None:
        """The states of all jobs of this name; ended ones too, as long as SLURM remembers them."""
        words = ["-h", "--all", "--me", f"--name={self.name}", "--states=all", "-o", "%i|%T|%r"]
        answer = self.asking("squeue", *words)
        self._reasons = {}
        if answer.text is None:
            return None
        rows = [line.strip().split("|", 2) for line in answer.text.splitlines() if "|" in line]
        self._reasons = {
            job: reason for job, state, reason in rows if state in WAITING and reason not in USUAL
        }
        return {job: state for job, state, _ in rows}

    def _accounting(self, jobs: list[str]) -> dict[str, str] | None:
        answer = self.asking("sacct", "-X", "-n", "-P", "-j", ",".join(jobs), "-o", "JobID,State")
        if answer.text is None:
            return None
        rows = [line.split("|") for line in answer.text.splitlines() if "|" in line]
        # A state can have words behind it, as in `CANCELLED by 0`.
        return {job: state.split()[0] for job, state in rows if state.strip()}

    def _given_up(self, jobs: list[str]) -> dict[str, Outcome]:
        """Tell why jobs wait, once each; cancel and return those that will never start."""
        found = {}
        for job, reason in self._reasons.items():
            if job not in jobs:
                continue
            if self._told.get(job) != reason:
                self._told[job] = reason
                self.say(f"SLURM job {job} waits: {reason}")
            if HOPELESS.search(reason):
                self.asking("scancel", job, limit_s=60.0)
                text = f"HELD: SLURM job {job} did not start and was held: {reason}"
                found[job] = Outcome(job, "HELD", text)
        return found

    def _hear(self, silent: bool) -> None:
        if silent and self._silent_since is None:
            self._silent_since = self.clock()
            self.say(
                "SLURM does not answer (slurmctld or slurmdbd down?); its jobs go on, and so does "
                "the waiting"
            )
        elif not silent and self._silent_since is not None:
            waited = self.clock() - self._silent_since
            self.say(f"SLURM answers again, after {waited:.0f} s")
            self._silent_since = None
