"""A key of --config is accepted with the command that it belongs to, and nowhere else."""

from __future__ import annotations

import pytest

from gemmgrid.plan.config.errors import ConfigError
from gemmgrid.plan.jobs import questions


@pytest.mark.parametrize("key", questions.COMMANDS)
def test_each_key_belongs_to_one_command(key):
    command = questions.COMMANDS[key]
    questions.check([key], [command])
    questions.check([key], [f"gemmgrid_{command}"])  # as a module of another workflow calls it
    for targets in ([], ["all"], ["stale"]):
        with pytest.raises(ConfigError, match=f"{key}: it belongs to the command `{command}`"):
            questions.check([key], targets)


def test_what_was_probably_meant_is_said():
    with pytest.raises(ConfigError, match="backends=NAME"):
        questions.check(["backend"], [])


def test_the_size_of_allocations_goes_with_all_that_is_sent():
    questions.check(["cells_per_allocation"], [])
