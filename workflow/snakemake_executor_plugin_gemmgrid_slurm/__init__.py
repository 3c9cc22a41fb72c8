"""Sends Snakemake's jobs to SLURM, waits for them, and tells in SLURM's own words how they ended.

    executor: gemmgrid-slurm

On the public interface of Snakemake's executors. One job of a rule is one allocation. What is asked
for comes from the rule's resources, each as sbatch takes it: slurm_partition, slurm_account, qos,
constraint, gres, cpus_per_task (else threads), mem_mb, runtime (minutes), slurm_extra (more words).
Two more of them are about the job itself:

    slurm_title     what it is, in words, for the lines that say what is sent
    slurm_outcome   a file that takes why a job did not end well: {"lost": {"reason", "job_id",
                    "node", "partition"}}. Snakemake then goes on as if it had, and a later rule
                    reads why there is nothing

`watch` finds out which jobs have ended, `outcome` why, `leftovers` ends what a killed run left.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import subprocess
import time
import uuid
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.jobs import JobExecutorInterface
from snakemake_interface_executor_plugins.settings import CommonSettings

from snakemake_executor_plugin_gemmgrid_slurm.settings import ExecutorSettings

FIRST_S = 10.0
"""Seconds to the first question after something was sent or has ended; they grow by as many."""
SENDING_S = 120.0
"""Seconds that sbatch may take: a busy controller lets it wait."""


common_settings = CommonSettings(
    non_local_exec=True,
    implies_no_shared_fs=False,
    job_deploy_sources=False,
    pass_default_storage_provider_args=True,
    pass_default_resources_args=True,
    pass_envvar_declarations_to_cmd=False,  # sbatch hands on the environment
    auto_deploy_default_storage_provider=False,
)


class Executor(RemoteExecutor):
    """Sends in a thread of its own, where Ctrl-C does not come between sbatch and its answer."""

    _distance_s = FIRST_S  # the thread that waits starts before __post_init__

    def __post_init__(self) -> None:
        # Here, because Snakemake imports every executor there is at every start.
        from snakemake_executor_plugin_gemmgrid_slurm.leftovers import Campaign, say
        from snakemake_executor_plugin_gemmgrid_slurm.watch import Watch

        own: ExecutorSettings = self.workflow.executor_settings
        self.run_name = f"{own.jobname_prefix}-{uuid.uuid4().hex[:12]}"
        self.logdir = Path(own.logdir).resolve()
        self.campaign, self.say = Campaign(Path(own.campaign), self.run_name), say
        self.watch = Watch(self.run_name, say=say)
        self._sender = ThreadPoolExecutor(max_workers=1)
        self._cancelled = False

    # Sending

    def run_job(self, job: JobExecutorInterface) -> None:
        self.campaign.begin()
        script = Path(self.get_jobscript(job))
        self.write_jobscript(job, script)
        self._distance_s = FIRST_S
        self._sender.submit(self._send, job, script)

    def request(self, job: JobExecutorInterface) -> list[str]:
        """The words of sbatch for a job."""
        own: ExecutorSettings = self.workflow.executor_settings
        asked = job.resources.get
        named = {
            "--partition": asked("slurm_partition"),
            "--account": asked("slurm_account"),
            "--qos": asked("qos") or own.qos,
            "--reservation": own.reservation,
            "--constraint": asked("constraint"),
            "--gres": asked("gres"),
            "--cpus-per-task": asked("cpus_per_task") or job.threads,
            "--mem": asked("mem_mb"),
            "--time": asked("runtime"),
        }
        words = [f"{option}={value}" for option, value in named.items() if value not in (None, "")]
        words += ["--ntasks=1", "--nodes=1", "--requeue" if own.requeue else "--no-requeue"]
        return [*words, *shlex.split(asked("slurm_extra") or ""), *shlex.split(own.extra or "")]

    def _send(self, job: JobExecutorInterface, script: Path) -> None:
        from snakemake_executor_plugin_gemmgrid_slurm.outcome import refused

        if self._cancelled:
            return
        try:
            slurm_id = self._sbatch(job, script)
        except Exception as error:  # or nobody would ever hear of this job
            self._ended(SubmittedJobInfo(job), refused(f"{error}"))
            return
        self.watch.add(slurm_id)
        self.say(f"{title(job)} sent as SLURM job {slurm_id}")
        self.report_job_submission(SubmittedJobInfo(job, external_jobid=slurm_id))

    def _sbatch(self, job: JobExecutorInterface, script: Path) -> str:
        """Send a job and return its id; RuntimeError and OSError say why SLURM did not take it."""
        log = self.logdir / f"rule_{job.name}" / "%j.log"
        command = [
            *("sbatch", "--parsable", f"--job-name={self.run_name}", f"--output={log}"),
            *("--export=ALL", f"--chdir={Path.cwd()}", *self.request(job), str(script)),
        ]
        # What SLURM says of a job around this process is not meant for the new one.
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("SLURM_") or name == "SLURM_CONF"
        }
        log.parent.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=SENDING_S,
            check=False,
            env=kept,
            start_new_session=True,
        )
        slurm_id = done.stdout.strip().rpartition("\n")[2].partition(";")[0]
        if done.returncode or not slurm_id.isdecimal():
            raise RuntimeError(done.stderr or done.stdout)
        return slurm_id

    # Waiting

    async def check_active_jobs(
        self, active_jobs: list[SubmittedJobInfo]
    ) -> AsyncGenerator[SubmittedJobInfo, None]:
        if not active_jobs:
            return
        ended = await asyncio.to_thread(self.watch.look)
        self._distance_s = FIRST_S if ended else self._distance_s + FIRST_S
        for info in active_jobs:
            job = info.external_jobid
            if job not in ended:
                yield info
                continue
            if ended[job] is None:
                self._log_of(info).unlink(missing_ok=True)
                self.report_job_success(info)
            else:
                self._ended(info, ended[job])
            self.watch.forget(job)

    async def sleep(self) -> None:
        """Until the next question, or until the workflow ends."""
        start = time.monotonic()
        while self.wait and time.monotonic() - start < self.next_seconds_between_status_checks:
            await asyncio.sleep(0.2)

    @property
    def next_seconds_between_status_checks(self) -> float:
        """Growing, with --seconds-between-status-checks as the longest."""
        longest = self.workflow.remote_execution_settings.seconds_between_status_checks
        return float(min(self._distance_s, longest))

    def _ended(self, info: SubmittedJobInfo, found: Any) -> None:
        """A job has ended badly, or was never taken: say why, and keep it where a rule asks so."""
        log = self._log_of(info)
        shown = f"\n  its log: {log}" if log.is_file() else ""
        self.say(f"{place(info.job)}: {found.text}{shown}")
        file = info.job.resources.get("slurm_outcome")
        if not file:
            self.report_job_error(info, msg=f"{found.text}\n")
            return
        text = json.dumps({"lost": found.lost()})
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).write_text(text, encoding="utf-8")
        self.report_job_success(info)

    def _log_of(self, info: SubmittedJobInfo) -> Path:
        return self.logdir / f"rule_{info.job.name}" / f"{info.external_jobid}.log"

    # The end

    def cancel_jobs(self, active_jobs: list[SubmittedJobInfo]) -> None:
        """What is still to be sent must not be sent; what was sent is ended."""
        self._cancelled = True
        self._sender.shutdown(wait=True, cancel_futures=True)
        if not self.watch.jobs:
            return
        jobs = " ".join(self.watch.jobs)
        problem = self.campaign.cancel()
        if problem:
            self.say(f"SLURM jobs could not be cancelled: {problem}. End them: scancel {jobs}")
        else:
            self.say(f"cancelled what was sent to SLURM and had not ended: {jobs}")

    def shutdown(self) -> None:
        self._sender.shutdown(wait=True)
        super().shutdown()
        if not self.watch.jobs:
            self.campaign.close()


def title(job: JobExecutorInterface) -> str:
    return str(job.resources.get("slurm_title") or f"job {job.jobid} ({job.name})")


def place(job: JobExecutorInterface) -> str:
    """The machine that a job measures, for lines about its end."""
    wildcards = json.loads(str(job.properties())).get("wildcards") or {}
    return str(wildcards.get("machine") or job.name)


__all__ = ["Executor", "ExecutorSettings", "common_settings"]
