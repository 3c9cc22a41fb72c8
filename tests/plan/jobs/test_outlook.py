"""The line that says what a start is about to measure."""

from __future__ import annotations

import pytest

from gemmgrid.plan.jobs.outlook import outlook
from gemmgrid.plan.jobs.targets import Targets
from tests.plan.conftest import block

STUDY = {"machine": "here", "grid": [block(shapes=[16, 32], backends=["numpy-openblas"])]}


def test_how_many_and_about_how_long(project):
    told = outlook(project.plan(STUDY), 2)
    assert told.startswith("gemmgrid: study default on here: 2 of 2 cells to measure in 5 rounds")
    assert "roughly 12 s" in told
    many = outlook(project.plan({**STUDY, "sampling": {"sample_s": 60}}), 2)
    assert "roughly 20 min" in many


def test_nothing_to_measure_says_how_to_measure_again(project):
    assert "nothing to measure, there is a run of every cell; -F measures 2 cells again" in outlook(
        project.plan(STUDY), 0
    )


@pytest.mark.parametrize(
    ("names", "measure"),
    [((), True), (("all",), True), (("report",), False), (("results/a/b/c.jsonl",), False)],
)
def test_only_a_study_is_told_of(names, measure):
    assert Targets(names=frozenset(names)).measure is measure
