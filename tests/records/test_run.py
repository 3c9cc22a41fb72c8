"""The vocabulary of runs, and the reader of older ones."""

from __future__ import annotations

import pytest

from gemmgrid.records import run as runs
from gemmgrid.records.context import difference, digest
from gemmgrid.records.names import name_problem


def test_ids_sort_by_time_and_never_repeat():
    ids = [runs.new_id(runs.now()) for _ in range(200)]
    assert ids == sorted(ids, key=lambda one: one[:23])
    assert len(set(ids)) == 200


def test_older_schemas_are_migrated_step_by_step(monkeypatch):
    monkeypatch.setattr(runs, "SCHEMA_VERSION", 3)
    steps = {1: lambda run: run | {"first": True}, 2: lambda run: run | {"schema": 3}}
    monkeypatch.setattr(runs, "_MIGRATIONS", steps)
    old = {
        "schema": 1,
        "id": "1",
        "started_at": "2026-01-01T00:00:00.000000Z",
        "machine": "m",
        "backend": "b",
        "cell": {"routine": "dot", "dtype": "float32", "shape": [4], "threads": 1},
        "status": "ok",
        "invocations": [],
    }
    assert runs.migrate(old) == old | {"first": True, "schema": 3}


@pytest.mark.parametrize("version", [0, -1, None, "1", True, 1.0])
def test_a_version_that_is_none_is_refused(version):
    with pytest.raises(runs.NotARunError, match="schema version"):
        runs.migrate({"schema": version})


def test_every_settled_status_is_a_status():
    assert set(runs.STATUSES) >= runs.SETTLED


@pytest.mark.parametrize(
    "name",
    ["../x", "a b", "$(reboot)", "a'b", "", "A", "a/b", ".hidden", "a..b", "x" * 65, 3, "tables"],
)
def test_names_that_could_leave_a_folder_or_a_shell_are_refused(name):
    assert name_problem(name)


@pytest.mark.parametrize("name", ["numpy-openblas", "amd-epyc-2c", "m2.max", "0", "x" * 64])
def test_plain_names_pass(name):
    assert name_problem(name) is None


def test_digest_ignores_the_order_of_keys_and_difference_names_what_changed():
    old = {"driver": {"version": "550"}, "kernel": "6.1", "gone": 1}
    new = {"kernel": "6.1", "driver": {"version": "560"}, "new": 2}
    assert digest(old) == digest(dict(reversed(old.items())))
    assert digest(old) != digest(new)
    assert difference(old, new) == {
        "driver.version": ("550", "560"),
        "gone": (1, None),
        "new": (None, 2),
    }
