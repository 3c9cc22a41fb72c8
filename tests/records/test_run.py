"""The vocabulary of runs, and the reader of older ones."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gemmgrid.records import run as runs
from gemmgrid.records.cell import Cell
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


def whole_run() -> dict[str, Any]:
    """The least that gemmgrid itself writes: a cell that was lost."""
    backend = {"deploy": "venv", "adapter": "numpy", "options": {}, "protocol": 1, "lock": None}
    backend |= {"python": None, "packages": None, "variables": {}, "library": None, "precision": {}}
    context = {"host": {}, "device": None, "backend": backend, "host_hash": "a"}
    environment = {"deploy": "venv", "name": "b", "prefix": None, "python": None, "packages": []}
    cell = Cell("dot", "float32", (4,), 1).to_json()
    return {
        "schema": 1,
        "id": "1",
        "tool": {"version": "1", "commit": None, "dirty": None},
        "started_at": "2026-01-01T00:00:00.000000Z",
        "ended_at": "2026-01-01T00:00:00.000000Z",
        **{"machine": "m", "backend": "b", "adapter": "numpy", "device": "cpu", "cell": cell},
        **{"status": "lost", "reason": None, "flags": [], "failure": None, "host": {"id": None}},
        "gpu": None,
        "context": context | {"device_hash": None, "backend_hash": "b"},
        "environment": environment | {"variables": {}, "dropped_variables": {}},
        **{"expression": None, "library": None, "settings": {}, "order": None, "invocations": []},
        "conditions": {"before": None, "after": None},
        "evidence": None,
        "unknown": {},
    }


def changed(path: str, value: Any) -> dict[str, Any]:
    run = whole_run()
    *parents, last = path.split(".")
    place = run
    for key in parents:
        place = place[key]
    if value is GONE:
        del place[last]
    else:
        place[last] = value
    return run


GONE = object()


@pytest.mark.parametrize(
    ("path", "value", "strictly", "read_as"),
    [
        ("order", "first", "order is 'first', not a whole number", None),
        ("order", True, "order is True, not a whole number", None),
        ("host.id", 3, "host.id is 3, not text", None),
        ("host", None, "host is None, not an object", None),
        ("environment.deploy", "uv", "environment.deploy is 'uv', not one of venv, con", None),
        (
            "context.backend.variables",
            {"A": 1},
            "context.backend.variables.A is 1, not te",
            {"A": None},
        ),
        ("flags", "noisy", "flags is 'noisy', not a list", None),
        ("flags", ["noisy", 1, "drift"], "flags.1 is 1, not text", ["noisy", "drift"]),
        ("ended_at", "today", "ended_at is 'today', not text of the form", "today"),
        ("environment", GONE, "environment is missing", None),
        ("environment.name", GONE, "environment.name is missing", None),
        ("new", 1, "new is no key of a run", 1),
        ("host.new", 1, None, 1),
        (
            "evidence",
            {"slots_watched": 1.5},
            "evidence.slots_watched is 1.5, n",
            {"slots_watched": None},
        ),
    ],
)
def test_what_is_of_a_wrong_type(path: str, value: Any, strictly: str | None, read_as: Any):
    document = changed(path, value)
    before = json.dumps(document)
    found = runs.problems_of(document)
    assert [text[: len(strictly or "")] for text in found] == ([strictly] if strictly else [])
    run, noted = runs.admit(document)
    left: Any = run
    for key in path.split("."):
        left = (left or {}).get(key)
    assert left == read_as
    lenient = strictly is None or any(
        word in strictly for word in ("missing", "no key", "of the form", "is None")
    )
    assert len(noted) == (0 if lenient else 1)
    assert json.dumps(document) == before


def invocation(**changes: Any) -> dict[str, Any]:
    made = {"index": 0, "round": 1, "started_at": "2026-01-01T00:00:00.000000Z", "status": "ok"}
    return made | {"reason": None, "flags": [], "stage": "done", "unknown": {}} | changes


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"inner": 0}, "invocations.0.inner is 0, not a whole number of at least 1"),
        (
            {"samples": {"at_ns": [1], "elapsed_ns": [1, "2"], "device_ns": None}},
            "invocations.0.samples.elapsed_ns is a list, not a list of which each is a whole",
        ),
        ({"verify": {"before": 1}}, "invocations.0.verify.before is 1, not an object"),
        ({"index": 10**400}, None),
        ({"index": -(10**400)}, "invocations.0.index is a huge number, not a whole number of at"),
    ],
)
def test_parts_of_an_invocation(bad: dict[str, Any], said: str | None):
    run, noted = runs.admit(changed("invocations", [invocation(**bad)]))
    assert [text[: len(said or "")] for text in noted] == ([said] if said else [])
    assert run["invocations"][0]["status"] == "ok"


@pytest.mark.parametrize("key", runs.ESSENTIAL)
def test_without_what_it_must_have_a_document_is_no_run(key: str):
    for value in (GONE, None, [[]]):
        with pytest.raises(runs.NotARunError, match=key):
            runs.admit(changed(key, value))


def test_a_whole_run_has_no_problem():
    assert runs.problems_of(whole_run()) == []
    assert runs.admit(whole_run()) == (whole_run(), [])
    assert runs.problems_of([1]) == ["a run is a JSON object, not list"]
