"""What the plugin would wait for for ever, or forget, it is told in words that it understands."""

from __future__ import annotations

import asyncio
import inspect
import logging
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import snakemake_executor_plugin_slurm as real_plugin
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo

from gemmgrid.plan.slurm.watch import GONE_S, LOOK_S, Watch
from tests.plan.slurm.doubles import command

COMMAND = "sacct -X --parsable2 --clusters all --noheader --format=JobIdRaw,State --name gemmgrid_1"
LOGGER = logging.getLogger(__name__)
SILENT = "gemmgrid: SLURM does not answer (slurmctld or slurmdbd down?)"


class Site:
    """A test double of a SLURM site and of the plugin that asks it.

    accounting, queue   what sacct and squeue list, None where they fail
    """

    def __init__(self) -> None:
        self.accounting: dict[str, str] | None = {}
        self.queue: dict[str, str] | None = {}
        self.now, self.asked = 1000.0, list[str]()
        self.sent: list[tuple[Any, str]] = []
        self.ended: list[tuple[Any, str | None, str]] = []
        self.watch = Watch(
            lambda *what: self.sent.append(what),
            lambda *what: self.ended.append(what),
            lambda: self.now,
        )
        self.reported: list[tuple[str, Any]] = []
        reported = self.reported

        class Executor:
            def report_job_submission(self, job_info: Any, register_job: bool = True) -> None:
                reported.append(("sent", job_info))

            def report_job_error(self, job_info: Any, msg: Any = None, **more: Any) -> None:
                reported.append((f"error {msg} {sorted(more)}", job_info))

            def report_job_success(self, job_info: Any) -> None:
                reported.append(("success", job_info))

        self.plugin = SimpleNamespace(
            query_job_status=self._answer,
            query_job_status_squeue=real_plugin.query_job_status_squeue,
            Executor=Executor,
        )
        self.watch.install(self.plugin)
        self.executor = Executor()

    async def _answer(self, command: str, logger: Any) -> tuple[dict[str, str] | None, Any]:
        tool = command.split(maxsplit=1)[0]
        self.asked.append(command)
        answer = {"sacct": self.accounting, "squeue": self.queue}[tool]
        return (None, None) if answer is None else (dict(answer), 0.25)

    def send(self, *jobs: str) -> Site:
        for job in jobs:
            self.executor.report_job_submission(SubmittedJobInfo(f"cells of {job}", job))
        return self

    def poll(self, seconds: float = 10.0, command: str = COMMAND) -> dict[str, str]:
        """What the plugin hears, after some time."""
        self.now += seconds
        states, duration = asyncio.run(self.plugin.query_job_status(command, LOGGER))
        assert isinstance(duration, float)  # the plugin takes None for a failed query
        return states

    def poll_until_gone(self, job: str = "7") -> dict[str, str]:
        assert self.poll().get(job) != "ERROR"
        assert self.poll(GONE_S).get(job) != "ERROR"
        return self.poll(1)


@pytest.fixture
def site() -> Site:
    return Site().send("7")


@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "COMPLETED", "SUSPENDED", "COMPLETING"])
def test_what_the_plugin_knows_goes_through(site, state):
    site.accounting = site.queue = {"7": state}
    assert site.poll() == {"7": state}
    assert site.poll() == {"7": state}
    # The queue is looked at once, and then left in peace.
    assert [one.split()[0] for one in site.asked] == ["sacct", "squeue", "sacct"]


@pytest.mark.parametrize(
    "state", ["BOOT_FAIL", "DEADLINE", "FAILED", "OUT_OF_MEMORY", "TIMEOUT", "CANCELLED"]
)
@pytest.mark.parametrize("in_queue", [True, False])
def test_ends_that_the_plugin_knows_are_told_at_once(site, state, in_queue):
    site.accounting = {"7": state}
    site.queue = {"7": state} if in_queue else {}
    assert site.poll() == {"7": state}


@pytest.mark.parametrize("queue", [{"7": "CANCELLED"}, {}, None])
def test_a_job_cancelled_by_somebody_is_cancelled(site, queue):
    site.accounting, site.queue = {"7": "CANCELLED by 1001"}, queue
    assert site.poll() == {"7": "CANCELLED"}


@pytest.mark.parametrize("state", ["PREEMPTED", "NODE_FAIL"])
@pytest.mark.parametrize("in_queue", [True, False])
def test_an_end_without_return_is_an_end(site, state, in_queue):
    site.accounting = {"7": state}
    site.queue = {"7": state} if in_queue else {}
    assert site.poll() == {"7": "CANCELLED"}


@pytest.mark.parametrize("state", ["PREEMPTED", "NODE_FAIL", "CANCELLED by 0", "FAILED"])
def test_a_job_that_is_requeued_is_waited_for(site, state):
    site.accounting = {"7": state}
    for in_queue in ("COMPLETING", "PENDING", "CONFIGURING", "RUNNING"):
        site.queue = {"7": in_queue}
        assert site.poll(200) == {"7": in_queue}
    site.accounting, site.queue = {"7": "COMPLETED"}, {}
    assert site.poll() == {"7": "COMPLETED"}


@pytest.mark.parametrize("state", ["PREEMPTED", "NODE_FAIL"])
def test_whether_a_job_comes_back_is_not_guessed_without_the_queue(site, state):
    site.accounting, site.queue = {"7": state}, None
    assert site.poll() == {}
    assert site.poll(3600) == {}
    site.queue = {"7": "PENDING"}
    assert site.poll() == {"7": "PENDING"}
    site.queue = {}
    assert site.poll() == {"7": "CANCELLED"}


@pytest.mark.parametrize("state", ["UNKNOWN", "REVOKED", "EXPEDITING"])
def test_a_word_that_nobody_knows_is_neither_success_nor_end(site, state):
    site.accounting = site.queue = {"7": state}
    assert site.poll(600) == {"7": "RUNNING"}
    site.queue = {}
    assert site.poll_until_gone() == {"7": "ERROR"}


def test_a_job_that_is_never_listed_is_gone_after_a_while(site):
    assert site.poll_until_gone() == {"7": "ERROR"}


def test_a_job_that_only_the_queue_lists_is_not_gone(site):
    site.queue = {"7": "PENDING"}
    assert [site.poll(600) for _ in range(3)] == [{"7": "PENDING"}] * 3


def test_a_job_that_comes_back_into_sight_gets_its_time_again(site):
    assert site.poll() == site.poll(GONE_S) == {}
    site.queue = {"7": "RUNNING"}
    assert site.poll() == {"7": "RUNNING"}
    site.queue = {}
    assert site.poll_until_gone() == {"7": "ERROR"}


def test_one_rare_poll_does_not_end_a_job(site):
    site.accounting = {"7": "COMPLETED"}
    site.send("8")
    assert site.poll(3600) == {"7": "COMPLETED"}


def test_a_job_whose_end_the_accounting_missed_does_not_run_for_ever(site):
    site.accounting = site.queue = {"7": "RUNNING"}
    assert site.poll() == {"7": "RUNNING"}
    site.queue = {}
    assert site.poll(LOOK_S) == {"7": "RUNNING"}  # not asked again yet
    assert site.poll(1) == {"7": "RUNNING"}
    assert site.poll(GONE_S + 1) == {"7": "ERROR"}


def test_a_queue_that_never_listed_a_job_does_not_end_it(site):
    site.accounting = {"7": "RUNNING"}
    assert [site.poll(LOOK_S + 1) for _ in range(4)] == [{"7": "RUNNING"}] * 4


def test_the_controller_is_believed_where_the_accounting_lags(site):
    site.accounting, site.queue = {"7": "RUNNING"}, {"7": "TIMEOUT"}
    assert site.poll() == {"7": "TIMEOUT"}
    site.accounting, site.queue = {"7": "COMPLETED"}, {"7": "COMPLETING"}
    assert site.poll() == {"7": "COMPLETED"}


def test_without_accounting_the_queue_tells(site):
    site.accounting = None
    site.send("8", "9")
    site.queue = {"7": "RUNNING", "8": "COMPLETED", "9": "PREEMPTED"}
    assert site.poll() == {"7": "RUNNING", "8": "COMPLETED", "9": "CANCELLED"}


def test_a_site_without_sacct(site):
    """The plugin then asks the queue itself."""
    queue_command = real_plugin.query_job_status_squeue("gemmgrid_1")
    site.accounting = None
    site.queue = {"7": "RUNNING"}
    assert site.poll(10, queue_command) == {"7": "RUNNING"}
    site.queue = {"7": "PREEMPTED"}
    assert site.poll(10, queue_command) == {"7": "CANCELLED"}
    site.queue = {}
    for seconds in (10.0, GONE_S):
        assert site.poll(seconds, queue_command) == {}
    assert site.poll(1, queue_command) == {"7": "ERROR"}


def test_the_queue_is_asked_for_the_same_jobs_in_all_partitions(site):
    site.poll()
    words = site.asked[-1].split()
    assert words[0] == "squeue"
    assert words[words.index("--name") + 1] == "gemmgrid_1"
    assert {"--states=all", "--noheader", "--all"} <= set(words)


def test_an_outage_is_said_once_and_loses_no_job(site, capfd):
    site.accounting = site.queue = {"7": "RUNNING"}
    site.poll()
    site.accounting = site.queue = None
    assert [site.poll(200) for _ in range(5)] == [{}] * 5
    said = capfd.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith(SILENT)
    site.accounting = {"7": "RUNNING"}
    assert site.poll(200) == {"7": "RUNNING"}
    assert capfd.readouterr().err == "gemmgrid: SLURM answers again, after 1000 s\n"
    site.poll()
    assert capfd.readouterr().err == ""
    site.accounting = site.queue = None
    site.poll()
    assert capfd.readouterr().err.startswith(SILENT)


def test_an_outage_does_not_count_as_being_out_of_sight(site):
    site.accounting = site.queue = None
    site.poll(3600)
    site.accounting, site.queue = {}, {}
    assert site.poll_until_gone() == {"7": "ERROR"}


def test_an_answer_from_one_of_both_is_no_outage(site, capfd):
    site.accounting, site.queue = None, {"7": "RUNNING"}
    site.poll()
    site.accounting, site.queue = {"7": "RUNNING"}, None
    site.poll()
    assert capfd.readouterr().err == ""


def test_jobs_of_several_kinds_at_once(site):
    site.send("8", "9", "10")
    site.accounting = {"7": "RUNNING", "8": "CANCELLED by 0", "9": "COMPLETED", "10": "NODE_FAIL"}
    site.queue = {"7": "RUNNING", "10": "PENDING"}
    told = {"7": "RUNNING", "8": "CANCELLED", "9": "COMPLETED", "10": "PENDING"}
    assert site.poll() == told


def test_jobs_can_be_sent_while_an_answer_is_looked_at(site):
    def send() -> None:
        for number in range(100, 3100):
            site.send(str(number))

    sender = threading.Thread(target=send)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        sender.start()
        while sender.is_alive():
            assert site.poll(0) == {}
    finally:
        sys.setswitchinterval(before)
        sender.join()


def test_what_happens_is_told(site):
    info = SubmittedJobInfo("cells", "8")
    site.executor.report_job_submission(info, register_job=False)
    site.executor.report_job_error(info, msg="why", aux_logs=["a.log"])
    site.executor.report_job_error(SubmittedJobInfo("refused"), "sbatch failed")
    site.executor.report_job_success(SubmittedJobInfo("cells of 7", "7"))
    assert site.sent == [("cells of 7", "7"), ("cells", "8")]
    assert site.ended == [("cells", "8", "why"), ("refused", None, "sbatch failed")]
    whats = ["sent", "sent", "error why ['aux_logs']", "error sbatch failed []", "success"]
    assert [what for what, _ in site.reported] == whats
    assert site.watch.waiting == {}


def test_the_installed_plugin_has_what_is_replaced():
    assert list(inspect.signature(real_plugin.query_job_status).parameters) == ["command", "logger"]
    assert inspect.iscoroutinefunction(real_plugin.query_job_status)
    asked = real_plugin.query_job_status_squeue("gemmgrid_1").split()
    assert asked[0] == "squeue" and asked[-2:] == ["--name", "gemmgrid_1"]
    accounted = real_plugin.query_job_status_sacct("gemmgrid_1").split()
    assert accounted[accounted.index("--name") + 1] == "gemmgrid_1"
    executor = real_plugin.Executor
    for name in ("report_job_submission", "report_job_error", "report_job_success"):
        assert list(inspect.signature(getattr(executor, name)).parameters)[:2] == [
            "self",
            "job_info",
        ]
    assert "msg" in inspect.signature(executor.report_job_error).parameters
    # What is looked up in the module when it is called can be replaced there.
    assert "query_job_status" in executor.check_active_jobs.__code__.co_names


class Machinery:
    """The plugin's own executor, watched, over doubles of sacct and squeue and of the rest."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.now = folder, 0.0
        self.finished: list[str] = []
        self.failed: list[str] = []
        self.ended: list[tuple[str | None, str]] = []
        self.watch = Watch(
            lambda job, slurm_id: None,
            lambda job, slurm_id, message: self.ended.append((slurm_id, message)),
            lambda: self.now,
        )
        self.watch.install(real_plugin)
        self.executor = executor = object.__new__(real_plugin.Executor)
        executor.workflow = SimpleNamespace(
            executor_settings=SimpleNamespace(
                status_attempts=5,
                init_seconds_before_status_checks=1,
                keep_successful_logs=False,
                requeue=False,
                status_command="sacct",
            ),
            scheduler=SimpleNamespace(
                finish_callback=lambda job: self.finished.append(job.name),
                error_callback=lambda job: self.failed.append(job.name),
                submit_callback=lambda job: None,
            ),
        )
        executor.logger, executor.run_uuid = LOGGER, "gemmgrid_1"
        executor.status_rate_limiter = _NoLimit()
        executor._preemption_warning, executor._failed_nodes = False, set()
        executor._status_query_calls = executor._status_query_failures = 0
        executor._status_query_total_seconds = executor._status_query_max_seconds = 0.0
        executor._status_query_min_seconds = None
        executor._status_query_cycle_rows = []
        executor.next_seconds_between_status_checks = 10
        executor.lock, executor.active_jobs = threading.Lock(), []

    def send(self, *jobs: str) -> None:
        for job in jobs:
            log = {"slurm_logfile": self.folder / f"{job}.log"}
            double = SimpleNamespace(
                name=job,
                register=lambda **_: None,
                log_error=lambda *_, **__: None,
                is_group=lambda: False,
            )
            self.executor.report_job_submission(SubmittedJobInfo(double, job, log))

    def poll(self, accounting: str | None, queue: str | None, seconds: float = 10.0) -> set[str]:
        """One round of the plugin; the jobs that it goes on to wait for."""
        self.now += seconds
        for name, answer in (("sacct", accounting), ("squeue", queue)):
            file = self.folder / f"{name}.txt"
            file.unlink(missing_ok=True)
            if answer is not None:
                file.write_text(answer)
        jobs, self.executor.active_jobs = self.executor.active_jobs, []

        async def check() -> list[SubmittedJobInfo]:
            return [one async for one in self.executor.check_active_jobs(jobs)]

        self.executor.active_jobs = asyncio.run(check())
        return {one.external_jobid for one in self.executor.active_jobs}


class _NoLimit:
    async def __aenter__(self) -> None: ...
    async def __aexit__(self, *error: object) -> None: ...


@pytest.fixture
def machinery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machinery]:
    for name in ("report_job_submission", "report_job_error", "report_job_success"):
        # Put back afterwards: `install` changes the plugin in place.
        monkeypatch.setattr(real_plugin.Executor, name, getattr(real_plugin.Executor, name))
    monkeypatch.setattr(real_plugin, "query_job_status", real_plugin.query_job_status)
    for name in ("sacct", "squeue"):
        command(monkeypatch, tmp_path, name, f'exec cat "{tmp_path}/{name}.txt"')
    command(monkeypatch, tmp_path, "scontrol", "exit 1")
    yield Machinery(tmp_path)


def test_the_real_plugin_ends_what_ended(machinery):
    machinery.send("1", "2", "3", "4", "5", "6")
    accounting = "1|RUNNING\n2|CANCELLED by 0\n3|PREEMPTED\n4|NODE_FAIL\n5|COMPLETED\n"
    left = machinery.poll(accounting, "1|RUNNING\n4|PENDING\n5|COMPLETED\n")
    assert left == {"1", "4", "6"}
    assert (machinery.failed, machinery.finished) == (["2", "3"], ["5"])
    assert [slurm_id for slurm_id, _ in machinery.ended] == ["2", "3"]
    assert "SLURM status is: 'CANCELLED'" in machinery.ended[0][1]
    # 6 was never seen by either.
    assert machinery.poll(accounting, "1|RUNNING\n4|RUNNING\n", GONE_S) == {"1", "4", "6"}
    assert machinery.poll(accounting, "1|RUNNING\n4|RUNNING\n", 1) == {"1", "4"}
    assert machinery.failed == ["2", "3", "6"]
    assert machinery.poll("1|COMPLETED\n4|COMPLETED\n", None) == set()
    assert machinery.finished == ["5", "1", "4"]


def test_the_real_plugin_keeps_its_jobs_through_an_outage(machinery, capfd):
    machinery.send("1", "2")
    assert machinery.poll("1|RUNNING\n2|PENDING\n", "1|RUNNING\n2|PENDING\n") == {"1", "2"}
    for _ in range(20):
        assert machinery.poll(None, None, 180) == {"1", "2"}
    assert capfd.readouterr().err.count("SLURM does not answer") == 1
    assert machinery.poll(None, "1|COMPLETED\n2|RUNNING\n") == {"2"}
    assert "SLURM answers again, after 3430 s" in capfd.readouterr().err
    assert (machinery.failed, machinery.finished) == ([], ["1"])


def test_the_real_plugin_would_hang_without_it(machinery):
    """Should this fail, a later plugin may need less of the watch."""
    queries = machinery.watch._query
    real_plugin.query_job_status = queries
    machinery.send("1", "2", "3")
    for _ in range(3):
        left = machinery.poll("1|CANCELLED by 0\n2|PREEMPTED\n", "", 180)
        assert left == {"1", "2", "3"}
    assert machinery.poll(None, None) == set()  # forgotten, and neither failed nor finished
    assert (machinery.failed, machinery.finished) == ([], [])
