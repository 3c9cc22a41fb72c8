"""Runs that another machine made: they do not count, and the one before them does."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmgrid.records import history
from gemmgrid.records.foreign_runs import FLAG, broken, is_elsewhere, latest_own
from gemmgrid.records.run import FLAGS

CELL = {"routine": "dot", "dtype": "float32", "shape": [4], "threads": 1}


def a_run(**changes: object) -> dict[str, object]:
    run = {"schema": 1, "machine": "m", "backend": "b", "cell": CELL, "status": "ok"}
    return run | {"started_at": "2026-01-01T00:00:00.000000Z", "invocations": []} | changes


def test_the_flag_is_one_of_the_flags():
    assert FLAG in FLAGS
    assert is_elsewhere({"flags": ["noisy", FLAG]})


@pytest.mark.parametrize("run", [{}, {"flags": []}, {"flags": None}, {"flags": FLAG}, {"flags": 3}])
def test_other_runs_are_the_machines_own(run):
    assert not is_elsewhere(run)


@pytest.mark.parametrize(
    ("promise", "told"),
    [
        ({"broken": ["a", 3, None, "b"]}, ["a", "b"]),
        ({"broken": "a"}, []),
        ({}, []),
        (None, []),
        ("a", []),
    ],
)
def test_what_is_broken(promise, told):
    assert broken({"promise": promise}) == told


def test_the_latest_that_counts(tmp_path: Path):
    path = tmp_path / "m/b/cell.jsonl"
    assert latest_own(path) == (None, None)
    strange = a_run(id="1", flags=[FLAG])
    history.append(path, strange)
    assert latest_own(path) == (None, strange)
    own = a_run(id="2", flags=["noisy"])
    history.append(path, own)
    assert latest_own(path) == (own, None)
    history.append(path, strange | {"id": "3"})
    history.append(path, strange | {"id": "4"})
    assert latest_own(path) == (own, strange | {"id": "4"})
