"""What goes wrong while the plugin sends a job is told; and the profile sets the pace of asking."""

from __future__ import annotations

import inspect
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import snakemake_executor_plugin_slurm as real_plugin

from gemmgrid.plan.slurm import sending


class Plugin:
    """A test double of the plugin's module, around the parts of its executor that are changed."""

    def __init__(self, problem: Exception | None = None) -> None:
        self.errors: list[tuple[Any, str]] = []
        self.sent: list[Any] = []
        self.done: list[str] = []
        plugin = self

        class Executor:
            def __init__(self, longest: float) -> None:
                settings = SimpleNamespace(seconds_between_status_checks=longest)
                self.workflow = SimpleNamespace(remote_execution_settings=settings)
                self.now = 0.0
                self._job_submission_executor = SimpleNamespace(
                    shutdown=lambda **how: plugin.done.append(f"no more {sorted(how.items())}")
                )

            @property
            def next_seconds_between_status_checks(self) -> float:
                return self.now

            @next_seconds_between_status_checks.setter
            def next_seconds_between_status_checks(self, value: float) -> None:
                self.now = value

            def run_job(self, job: Any) -> None:
                try:
                    if problem:
                        raise problem
                    plugin.sent.append(job)
                except ValueError:
                    print(job.rule.name)

            def cancel_jobs(self, active_jobs: list[Any]) -> None:
                plugin.done.append(f"cancelled {active_jobs}")
                if problem:
                    raise problem

            def _report_job_error_threadsafe(self, job_info: Any, message: str) -> None:
                plugin.errors.append((job_info, message))

        self.Executor = Executor
        self.SubmittedJobInfo = lambda job: job
        self.get_account = lambda logger: "guessed"
        self.set_gres_string = lambda job: " --gpus=2"
        sending.install(self, lambda: self.done.append("the rest"))


def test_a_job_that_goes_well_goes_its_way():
    plugin = Plugin(None)
    plugin.Executor(60).run_job("group")
    assert (plugin.sent, plugin.errors) == (["group"], [])


def test_the_first_reason_is_told_where_telling_fails():
    plugin = Plugin(ValueError("no such account"))
    plugin.Executor(60).run_job("group")
    assert plugin.errors == [("group", "The error message was 'ValueError: no such account'")]


def test_accounts_are_not_guessed():
    assert Plugin(None).get_account(None) is None


@pytest.mark.parametrize(("wanted", "found"), [(1, 1), (60, 60), (180, 60)])
def test_the_distance_between_questions_has_an_end(wanted, found):
    executor = Plugin(None).Executor(60)
    executor.next_seconds_between_status_checks = wanted
    assert executor.next_seconds_between_status_checks == found


@pytest.mark.parametrize("problem", [None, ValueError("scancel failed")])
def test_ctrl_c_ends_what_is_being_sent_as_well(problem):
    plugin = Plugin(problem)
    with nullcontext() if problem is None else pytest.raises(ValueError):
        plugin.Executor(60).cancel_jobs([7])
    stopped = "no more [('cancel_futures', True), ('wait', True)]"
    assert plugin.done == [stopped, "cancelled [7]", "the rest"]


@pytest.mark.parametrize(
    ("gres", "words"),
    [
        ("gpu:h200:1", " --gres=gpu:h200:1"),
        ("gpu:nvidia_a100-sxm4-80gb:1", " --gres=gpu:nvidia_a100-sxm4-80gb:1"),
        ("gpu:a100:1,nvme:1", " --gres=gpu:a100:1,nvme:1"),
        (None, " --gpus=2"),
    ],
)
def test_any_gres_of_machines_yaml_can_be_sent(gres, words):
    job = SimpleNamespace(resources={"gres": gres} if gres else {})
    assert Plugin().set_gres_string(job) == words


def test_the_real_plugin_has_what_is_changed():
    assert inspect.signature(real_plugin.get_account).parameters.keys() == {"logger"}
    assert "get_account(self.logger)" in inspect.getsource(real_plugin.Executor.get_account_arg)
    executor = real_plugin.Executor
    assert isinstance(executor.next_seconds_between_status_checks, property)
    assert list(inspect.signature(executor.run_job).parameters) == ["self", "job"]
    names = list(inspect.signature(executor._report_job_error_threadsafe).parameters)
    assert names == ["self", "job_info", "msg"]
    assert real_plugin.SubmittedJobInfo(None).job is None
    assert list(inspect.signature(executor.cancel_jobs).parameters) == ["self", "active_jobs"]
    assert list(inspect.signature(real_plugin.set_gres_string).parameters) == ["job"]
    assert "set_gres_string(job)" in inspect.getsource(executor.run_job)
    assert "_job_submission_executor.submit(" in inspect.getsource(executor._submit_job)
