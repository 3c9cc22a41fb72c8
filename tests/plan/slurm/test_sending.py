"""What goes wrong while the plugin sends a job is told; and the profile sets the pace of asking."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

import pytest
import snakemake_executor_plugin_slurm as real_plugin

from gemmgrid.plan.slurm import sending


class Plugin:
    """A test double of the plugin's module, around the parts of its executor that are changed."""

    def __init__(self, problem: Exception | None) -> None:
        self.errors: list[tuple[Any, str]] = []
        self.sent: list[Any] = []
        plugin = self

        class Executor:
            def __init__(self, longest: float) -> None:
                settings = SimpleNamespace(seconds_between_status_checks=longest)
                self.workflow = SimpleNamespace(remote_execution_settings=settings)
                self.now = 0.0

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

            def _report_job_error_threadsafe(self, job_info: Any, message: str) -> None:
                plugin.errors.append((job_info, message))

        self.Executor = Executor
        self.SubmittedJobInfo = lambda job: job
        self.get_account = lambda logger: "guessed"
        sending.install(self)


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


def test_the_real_plugin_has_what_is_changed():
    assert inspect.signature(real_plugin.get_account).parameters.keys() == {"logger"}
    assert "get_account(self.logger)" in inspect.getsource(real_plugin.Executor.get_account_arg)
    executor = real_plugin.Executor
    assert isinstance(executor.next_seconds_between_status_checks, property)
    assert list(inspect.signature(executor.run_job).parameters) == ["self", "job"]
    names = list(inspect.signature(executor._report_job_error_threadsafe).parameters)
    assert names == ["self", "job_info", "msg"]
    assert real_plugin.SubmittedJobInfo(None).job is None
