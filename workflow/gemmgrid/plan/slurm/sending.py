"""Sending through the slurm executor plugin: what would hang there is told, and asking has a pace.

The plugin sends jobs in threads of its own. Where one fails before sbatch runs (no sacct to guess
an account with, an account that does not exist), it wants to name the job's rule, which a group of
jobs does not have; the thread ends without a word, and the workflow waits for ever. And it asks for
its jobs' states at distances that grow to three minutes, whatever --seconds-between-status-checks
says: here that is the longest distance.
Written for snakemake-executor-plugin-slurm 2.8.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any


def install(plugin: Any, cancelled: Callable[[], None] = lambda: None) -> None:
    """Change the plugin's module and its executor's class in place.

    cancelled   called when the user ends the workflow, after the plugin has ended what it knows
    """
    # Without --account SLURM takes the user's default one; the guess is made with a broken command.
    plugin.get_account = _no_guess
    executor = plugin.Executor
    original = executor.run_job

    def run_job(self_: Any, job: Any) -> None:
        try:
            original(self_, job)
        except Exception as error:
            cause = error.__context__ or error
            message = f"The error message was '{type(cause).__name__}: {cause}'"
            self_._report_job_error_threadsafe(plugin.SubmittedJobInfo(job), message)

    executor.run_job = run_job
    cancel_known = executor.cancel_jobs

    def cancel_jobs(self_: Any, active_jobs: Any) -> None:
        # What is still to be sent must not be sent after that.
        self_._job_submission_executor.shutdown(wait=True, cancel_futures=True)
        try:
            cancel_known(self_, active_jobs)
        finally:
            cancelled()

    executor.cancel_jobs = cancel_jobs
    check_gres = plugin.set_gres_string

    def set_gres_string(job: Any) -> str:
        # The plugin's pattern knows no hyphens (gpu:nvidia_a100-sxm4-80gb:1) and no lists; ours is
        # in machines.schema.yaml.
        gres = job.resources.get("gres")
        return f" --gres={shlex.quote(str(gres))}" if gres else str(check_gres(job))

    plugin.set_gres_string = set_gres_string
    paced = executor.next_seconds_between_status_checks

    def distance(self_: Any) -> Any:
        longest = self_.workflow.remote_execution_settings.seconds_between_status_checks
        return min(paced.fget(self_), longest)

    executor.next_seconds_between_status_checks = property(distance, paced.fset)


def _no_guess(_logger: Any) -> None:
    return None
