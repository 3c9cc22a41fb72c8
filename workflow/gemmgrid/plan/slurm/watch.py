"""An eye on the slurm executor plugin: what it sends, what ends, what it would never see end.

The plugin asks SLURM for the states of its jobs. Where an answer fails it forgets its jobs after a
few tries; states that it does not know (a job cancelled by a named user, preempted without being
requeued, dropped from the accounting) look to it as if the job still ran. Either way the workflow
would hang. So its question goes through here: a failed one is answered by the queue or with
"nothing new", and a state that is an end for SLURM is told as one that the plugin knows.
Written for snakemake-executor-plugin-slurm 2.8 (`query_job_status`).
"""

from __future__ import annotations

import asyncio
import shlex
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

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
FAILED = frozenset(
    {"BOOT_FAIL", "CANCELLED", "DEADLINE", "FAILED", "OUT_OF_MEMORY", "TIMEOUT", "ERROR"}
)
"""States that the plugin itself takes for an end, but for NODE_FAIL, after which it may wait."""
UNCERTAIN = frozenset({"NODE_FAIL", "PREEMPTED"})
"""Ends from which SLURM may bring a job back: only the queue tells."""
ENDED = FAILED | UNCERTAIN | {"COMPLETED"}
GONE_S = 120.0
"""Seconds after which a job that SLURM has lost sight of is taken for gone."""
LOOK_S = 600.0
"""Seconds after which the queue is asked although accounting says that all is well.

A job whose end never reached the accounting stands there as running for ever.
"""

States = dict[str, str]
Answered = tuple[States | None, float | None]
Query = Callable[[str, Any], Awaitable[Answered]]


class Watch:
    """Stands between the plugin and SLURM. `sent` and `ended` are told what happens.

    sent       called with a job of Snakemake and its SLURM id, once SLURM took it
    ended      called with a job of Snakemake, its SLURM id or None, and the plugin's message, when
               it failed
    hopeless   called with the SLURM ids that wait, in another thread; those that it returns have
               failed
    """

    def __init__(
        self,
        sent: Callable[[Any, str], None],
        ended: Callable[[Any, str | None, str], None],
        clock: Callable[[], float] = time.monotonic,
        hopeless: Callable[[list[str]], list[str]] = lambda waiting: [],
    ) -> None:
        self.hopeless = hopeless
        self.sent, self.ended, self.clock = sent, ended, clock
        self.waiting: dict[str, float | None] = {}
        """Jobs on their way: since when SLURM has lost sight of them, None while it has not."""
        self.silent_since: float | None = None
        self._in_queue: set[str] = set()  # jobs that the queue has listed
        self._looked: float | None = None  # when the queue last answered
        self._query: Query | None = None
        self._queue_command: Callable[[str], str] | None = None

    def install(self, plugin: Any) -> None:
        """Step between the plugin's module and SLURM; the plugin's classes are changed in place."""
        self._query, self._queue_command = plugin.query_job_status, plugin.query_job_status_squeue
        plugin.query_job_status = self.query
        executor = plugin.Executor
        submitted, failed = executor.report_job_submission, executor.report_job_error
        succeeded = executor.report_job_success

        def report_job_submission(self_: Any, job_info: Any, *more: Any, **named: Any) -> Any:
            self.waiting[job_info.external_jobid] = None
            self.sent(job_info.job, job_info.external_jobid)
            return submitted(self_, job_info, *more, **named)

        def report_job_error(self_: Any, job_info: Any, msg: Any = None, **named: Any) -> Any:
            self._forget(job_info.external_jobid)
            self.ended(job_info.job, job_info.external_jobid, msg or "")
            return failed(self_, job_info, msg, **named)

        def report_job_success(self_: Any, job_info: Any, *more: Any, **named: Any) -> Any:
            self._forget(job_info.external_jobid)
            return succeeded(self_, job_info, *more, **named)

        executor.report_job_submission = report_job_submission
        executor.report_job_error = report_job_error
        executor.report_job_success = report_job_success

    async def query(self, command: str, logger: Any) -> Answered:
        """In place of the plugin's query: the states of its jobs, never "no answer"."""
        assert self._query is not None
        answer, seconds = await self._query(command, logger)
        states, queued = _first_words(answer), None
        if states is None or self._doubtful(states):
            queued = _first_words((await self._query(self._ask_queue(command), logger))[0])
        if queued is not None:
            self._looked = self.clock()
        if states is None and queued is None:
            self._say_silent()
            return {}, 0.0
        self._say_heard()
        settled = self._settled(states or {}, queued)
        waiting = [job for job in list(self.waiting) if settled.get(job) in WAITING]
        for job in await asyncio.to_thread(self.hopeless, waiting):
            settled[job] = "ERROR"
        return settled, seconds or 0.0

    def _ask_queue(self, command: str) -> str:
        """The queue's command for the same jobs, those in hidden partitions as well."""
        assert self._queue_command is not None
        words = shlex.split(command)
        return f"{self._queue_command(words[words.index('--name') + 1])} --all"

    def _doubtful(self, states: States) -> bool:
        """Whether the queue has to be asked as well."""
        if self._looked is None or self.clock() - self._looked > LOOK_S:
            return True
        # A copy, here and below: another thread adds the jobs that are being sent.
        return any(
            since is not None or states.get(job) not in ALIVE | {"COMPLETED"}
            for job, since in list(self.waiting.items())
        )

    def _settled(self, states: States, queued: States | None) -> States:
        """Accounting and queue together, in words that the plugin knows."""
        settled = dict(states)
        for job, since in list(self.waiting.items()):
            accounted, in_queue = states.get(job), (queued or {}).get(job)
            state = accounted if accounted == "COMPLETED" else in_queue or accounted
            if in_queue is not None:
                self._in_queue.add(job)
            elif queued is not None and self._should_be_queued(job, accounted):
                since = self.clock() if since is None else since
                self.waiting[job] = since
                if self.clock() - since > GONE_S:
                    settled[job] = "ERROR"
                    continue
            if state is not None and (in_queue is not None or state in ENDED):
                self.waiting[job] = None
            if state in UNCERTAIN:
                # Without the queue's word it may still come back.
                state = None if queued is None else "CANCELLED"
            elif state is not None and state not in ALIVE | ENDED:
                # The plugin takes "UNKNOWN" for a success; any other word, it takes for alive.
                state = "RUNNING"
            if state is None:
                settled.pop(job, None)
            else:
                settled[job] = state
        return settled

    def _should_be_queued(self, job: str, accounted: str | None) -> bool:
        """Whether a job that the queue does not list has to be there, if it is anywhere.

        Accounting is believed that a job is alive if the queue never listed it: a filter of the
        site's or the user's may keep it from there.
        """
        if accounted in ALIVE:
            return job in self._in_queue
        return accounted not in ENDED

    def _forget(self, job: str | None) -> None:
        if job is not None:
            self.waiting.pop(job, None)
            self._in_queue.discard(job)

    def _say_silent(self) -> None:
        if self.silent_since is None:
            self.silent_since = self.clock()
            print(
                "gemmgrid: SLURM does not answer (slurmctld or slurmdbd down?); its jobs go on, "
                "and so does the waiting",
                file=sys.stderr,
                flush=True,
            )

    def _say_heard(self) -> None:
        if self.silent_since is not None:
            waited = self.clock() - self.silent_since
            print(
                f"gemmgrid: SLURM answers again, after {waited:.0f} s", file=sys.stderr, flush=True
            )
            self.silent_since = None


def _first_words(states: States | None) -> States | None:
    """States without what stands behind them, as in `CANCELLED by 0`."""
    if states is None:
        return None
    return {job: state.split()[0] for job, state in states.items() if state.strip()}
