"""Runs that another machine made: they do not count, and the one before them does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gemmgrid.records import history
from gemmgrid.records.foreign_runs import FLAG, broken, is_elsewhere, latest_own
from gemmgrid.records.identity import identity
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


L3 = {"level": 3, "type": "unified", "size_bytes": 32 << 20, "shared_by": 8, "count": 2}
FACTS = {
    "architecture": "x86_64",
    "cpu": {"model": "EPYC", "cores": 16, "caches": [L3]},
    "gpus": [{"name": "H200"}],
    "cards": ["0x10de:0x2335", "0x10de:0x2335"],
}
HERE = identity(FACTS)
OWN = {"id": HERE["host_id"], **HERE["host"]}


@pytest.mark.parametrize(
    ("changes", "elsewhere"),
    [
        ({}, False),
        ({"gpu": {"id": HERE["gpu_ids"][0]}}, False),
        ({"gpu": {"id": "0123456789ab"}}, True),
        ({"host": OWN | {"id": "000000000000"}}, True),
        ({"host": OWN | {"cards": ["0x10de:0x2335"]}}, True),
        ({"host": OWN | {"last_level_caches": [L3 | {"count": 1}]}}, True),
        # older records know neither of the two
        ({"host": {"id": OWN["id"]}}, False),
        ({"host": {"id": None}}, True),
        ({"host": {"id": ""}}, True),
        ({"host": {"id": None}, "status": "lost"}, False),
    ],
)
def test_whoever_reads_compares_the_host_with_the_folders(tmp_path: Path, changes, elsewhere):
    path = tmp_path / "m/b/cell.jsonl"
    run = a_run(id="1", host=OWN) | changes
    assert is_elsewhere(run, FACTS) == elsewhere
    history.append(path, run)
    assert latest_own(path) == (run, None)  # without a machine.json there is no telling
    (tmp_path / "m/machine.json").write_text(json.dumps(FACTS))
    assert latest_own(path) == ((None, run) if elsewhere else (run, None))


@pytest.mark.parametrize("facts", [[], {}, {"architecture": "x86_64", "cpu": [1]}, {"cpu": {}}])
def test_a_description_that_tells_nothing_makes_no_strangers(tmp_path: Path, facts):
    path = tmp_path / "m/b/cell.jsonl"
    run = a_run(id="1", host=OWN)
    history.append(path, run)
    (tmp_path / "m/machine.json").write_text(json.dumps(facts))
    assert latest_own(path) == (run, None)


def test_an_older_description_fits_what_knows_more():
    """It lacks the built-in GPUs, and its identity is what it was."""
    older = {key: value for key, value in FACTS.items() if key != "cards"}
    assert identity(older)["host_id"] == HERE["host_id"]
    assert not is_elsewhere(a_run(host=OWN), older)
