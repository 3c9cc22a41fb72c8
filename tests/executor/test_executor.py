"""What is asked of sbatch for a job, how often SLURM is asked, and what stays where a job fails."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.registry import ExecutorPluginRegistry

from snakemake_executor_plugin_gemmgrid_slurm import FIRST_S, Executor, ExecutorSettings
from snakemake_executor_plugin_gemmgrid_slurm.outcome import Outcome

LOST = Outcome("17", "TIMEOUT", "TIMEOUT: SLURM job 17 reached its time limit", "ice1", "cpu")


class Job:
    """A test double of Snakemake's job."""

    def __init__(self, **resources: Any) -> None:
        self.name, self.threads, self.jobid, self.resources = "measure", 8, 3, resources
        self.told: list[str] = []

    def properties(self) -> str:
        return json.dumps({"wildcards": {"machine": "icelake"}})

    def log_error(self, msg: str | None = None, **more: Any) -> None:
        self.told.append(msg or "")


@pytest.fixture
def executor(tmp_path: Path) -> Executor:
    """One that has no thread of its own and reports to lists."""
    one = object.__new__(Executor)
    one.ended = {"well": [], "badly": []}
    scheduler = SimpleNamespace(
        finish_callback=one.ended["well"].append, error_callback=one.ended["badly"].append
    )
    one.workflow = SimpleNamespace(
        executor_settings=ExecutorSettings(),
        scheduler=scheduler,
        remote_execution_settings=SimpleNamespace(seconds_between_status_checks=25),
    )
    one.logdir, one.said = tmp_path / "logs", []
    one.say = one.said.append
    return one


def test_snakemake_finds_it():
    plugin = ExecutorPluginRegistry().get_plugin("gemmgrid-slurm")
    assert plugin.executor is Executor
    names = [one["cliarg"] for one in plugin.get_settings_info()]
    assert "--gemmgrid-slurm-reservation" in names


def test_all_that_a_rule_can_ask_for(executor):
    executor.workflow.executor_settings = ExecutorSettings(
        requeue=True, qos="low", reservation="maintenance", extra="--mail-type=END -v"
    )
    job = Job(
        slurm_partition="cpu,fat",
        slurm_account="physics",
        constraint="icelake&avx512",
        gres="gpu:nvidia_a100-sxm4-80gb:1,nvme:2",
        qos="high",
        cpus_per_task=64,
        mem_mb=4000,
        runtime=49,
        slurm_extra="--exclusive --comment='two words'",
    )
    assert executor.request(job) == [
        *("--partition=cpu,fat", "--account=physics", "--qos=high", "--reservation=maintenance"),
        *("--constraint=icelake&avx512", "--gres=gpu:nvidia_a100-sxm4-80gb:1,nvme:2"),
        *("--cpus-per-task=64", "--mem=4000", "--time=49", "--ntasks=1", "--nodes=1", "--requeue"),
        *("--exclusive", "--comment=two words", "--mail-type=END", "-v"),
    ]


def test_what_is_not_named_is_left_to_slurm(executor):
    words = executor.request(Job(slurm_partition=None, mem_mb=500))
    assert words == ["--cpus-per-task=8", "--mem=500", "--ntasks=1", "--nodes=1", "--no-requeue"]


def test_a_lost_job_leaves_why_where_its_rule_wants_it(executor, tmp_path):
    file = tmp_path / "tokens/1"
    log = executor.logdir / "rule_measure/17.log"
    log.parent.mkdir(parents=True)
    log.touch()
    job = Job(slurm_outcome=str(file))
    executor._ended(SubmittedJobInfo(job, "17"), LOST)
    told = json.loads(file.read_text(encoding="utf-8"))
    place = {"job_id": "17", "node": "ice1", "partition": "cpu"}
    assert told == {"lost": {"reason": LOST.text, **place}}
    assert executor.ended == {"well": [job], "badly": []}
    assert executor.said == [f"icelake: {LOST.text}\n  its log: {log}"]


def test_a_lost_job_of_another_rule_fails(executor):
    job = Job()
    executor._ended(SubmittedJobInfo(job, "17"), LOST)
    assert executor.ended == {"well": [], "badly": [job]}
    assert LOST.text in job.told[0]


def test_questions_become_rarer_until_something_ends(executor):
    ends: list[dict[str, Outcome | None]] = [{}, {}, {}, {"17": None}]
    executor.watch = SimpleNamespace(look=lambda: ends.pop(0), forget=lambda job: None)
    info, distances = SubmittedJobInfo(Job(), "17"), []

    async def ask() -> list[SubmittedJobInfo]:
        return [one async for one in executor.check_active_jobs([info])]

    for left in ([info], [info], [info], []):
        distances.append(executor.next_seconds_between_status_checks)
        assert asyncio.run(ask()) == left
    assert distances == [FIRST_S, 20.0, 25.0, 25.0]  # the user's word is the longest
    assert executor.next_seconds_between_status_checks == FIRST_S
    assert executor.ended["well"] == [info.job]


def test_the_end_does_not_wait_for_the_next_question(executor):
    executor.wait = True
    executor.workflow.remote_execution_settings.seconds_between_status_checks = 600
    executor._distance_s = 600.0
    sleeper = threading.Thread(target=lambda: asyncio.run(executor.sleep()))
    sleeper.start()
    executor.wait = False
    sleeper.join(20)
    assert not sleeper.is_alive()


def test_nothing_is_sent_after_a_cancel(executor):
    executor._cancelled = True
    executor._sbatch = lambda job, script: pytest.fail("sent")
    executor._send(Job(), Path("script"))


def test_a_refusal_is_that_jobs_end_in_sbatchs_words(executor, tmp_path, monkeypatch):
    sbatch = tmp_path / "sbatch"  # a test double
    sbatch.write_text("#!/bin/sh\necho 'sbatch: error: Job violates policy' >&2; exit 1\n")
    sbatch.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    executor._cancelled, executor.run_name = False, "gemmgrid-1"
    job = Job(slurm_outcome=str(tmp_path / "token"))
    executor._send(job, tmp_path / "script")
    (said,) = executor.said
    assert said == (
        "icelake: REFUSED: SLURM did not take the job: sbatch: error: Job violates policy"
    )
    assert executor.ended["well"] == [job]
