"""What a run does with processes that ran while the CPUs were far from each other."""

from __future__ import annotations

import json
from itertools import repeat
from pathlib import Path

import pytest

from gemmgrid.measure.supervise import placement, supervisor
from gemmgrid.measure.supervise.assemble import seconds_per_call
from gemmgrid.measure.supervise.placement import Placement, lacking
from gemmgrid.measure.supervise.request import Environment, Request
from gemmgrid.measure.supervise.rounds import gather
from gemmgrid.records.cell import Cell
from gemmgrid.records.history import dumps
from gemmgrid.records.states import counted
from tests.measure.invocation.test_steps import SETTINGS
from tests.measure.parts import part

NEAR, FAR, BUSY = 90.0, 400.0, 300_000.0
NS = {NEAR: 20_000, FAR: 30_000, BUSY: 90_000}
"""Time of a call in each state."""


def probed(before: float, after: float | None = None) -> dict:
    halves = {"before": before, "after": before if after is None else after}
    return {key: {"trips": [{"cpus": [0, 1], "ns": [ns]}]} for key, ns in halves.items()}


def process(index: int, number: int, before: float, after: float | None = None) -> dict:
    """One that ran, as the supervisor gets it."""
    one = dict(part()["invocations"][0])
    one |= {"index": index, "round": number, "flags": [f"seen-{before:.0f}"], "inner": 1}
    return one | {"probe": probed(before, after), "samples": {"elapsed_ns": [NS[before]] * 30}}


@pytest.fixture
def measure(monkeypatch, tmp_path):
    """measure(trips, …): a run whose processes, one after another, see these trips."""

    def run(trips, only=None, part=None, invocations=3, budget_s=60.0, seconds=0.1, **settings):
        coming = iter(trips)

        def invoke(self, folder, index, number, soft_s, deadline_s):
            return process(index, number, *next(coming)), seconds

        monkeypatch.setattr(supervisor._Supervisor, "_invoke", invoke)
        monkeypatch.setattr(supervisor, "LATER_S", 0.0)
        cell = Cell.parse("gemm.float32.512x512x512.t2")
        spec = {"cell": cell.to_json(), "backend": "b", "adapter": "numpy", "device": "cpu"}
        spec |= {"blas": None, "options": {}, "variables": {}}
        place = Environment("e", "none", "python3", None)
        chosen = SETTINGS | {"invocations": invocations, "budget_s": budget_s} | settings
        request = Request("here", spec, cell, chosen, 1, None, {}, place)
        request.trips = tmp_path / "here" / placement.TRIPS_FILE
        if part:
            return supervisor.measure_more(request, lambda: None, only, part)
        return supervisor.measure_cell(request, lambda: None, only)

    return run


def test_a_machine_of_one_state_needs_no_more_processes(measure):
    run = measure([(FAR,)] * 3)
    assert [one.get("aside") for one in run["invocations"]] == [None] * 3
    assert "other-state" not in run["flags"]
    assert [state["name"] for state in run["states"]] == ["near"]


def test_processes_of_another_state_are_kept_named_and_replaced(measure):
    run = measure([(NEAR,), (FAR,), (NEAR, FAR), (FAR,), (NEAR,), (NEAR,)])
    named = [one.get("aside") for one in run["invocations"]]
    assert named == [None, "far", "changed", "far", None, None]
    assert [one["index"] for one in run["invocations"]] == [0, 1, 2, 3, 4, 5]
    assert seconds_per_call(run) == pytest.approx([2e-5] * 3)
    assert len(counted(run)) == 3
    # What befell a process that does not count is no doubt of the number.
    assert "seen-90" in run["flags"]
    assert "seen-400" not in run["flags"]
    assert "other-state" not in run["flags"]


def test_a_run_that_never_saw_the_best_state_says_so(measure):
    measure([(NEAR,)] * 3)
    run = measure(repeat((FAR,)))
    assert len(run["invocations"]) == 6  # as many more as were wanted
    assert [one.get("aside") for one in run["invocations"]] == [None] * 6
    assert "other-state" in run["flags"]
    assert seconds_per_call(run) == pytest.approx([3e-5] * 6)


def test_a_busy_neighbour_is_named(measure):
    measure([(NEAR,)] * 8, invocations=8)
    run = measure([(NEAR,), (BUSY,), (BUSY, NEAR), (NEAR,), (NEAR,)])
    assert [one.get("aside") for one in run["invocations"]] == [
        *(None, "disturbed", "changed"),
        *(None, None),
    ]


def test_no_more_are_started_than_the_budget_holds(measure):
    measure([(NEAR,)] * 3)
    run = measure(repeat((FAR,)), budget_s=30, seconds=40.0, invocations=1)
    assert len(run["invocations"]) == 1
    assert "other-state" in run["flags"]
    assert "budget-spent" not in run["flags"]


def test_one_thread_has_no_state(measure):
    run = measure([(NEAR,)] * 3)
    for one in run["invocations"]:
        one["probe"] = {key: {"trips": []} for key in ("before", "after")}
    placement.set_aside(run)
    assert len(counted(run)) == 3
    assert "other-state" not in run["flags"]


def test_rounds_are_judged_by_what_the_last_of_them_knew(measure):
    parts = []
    for number, trip in ((1, FAR), (2, NEAR), (3, FAR)):
        parts.append(json.loads(dumps(measure([(trip,)], only=number, rounds=3))))
    assert [lacking(one) for one in parts] == [0, 0, 1]  # of the first nothing better was known
    more = measure([(NEAR,)], only=3, rounds=3, part=parts[2])
    parts[2] = gather([parts[2], json.loads(dumps(more))])
    whole = gather(parts)
    named = [(one["index"], one["round"], one.get("aside")) for one in whole["invocations"]]
    assert named == [(0, 1, "far"), (1, 2, None), (2, 3, "far"), (5, 3, None)]
    assert seconds_per_call(whole) == pytest.approx([2e-5] * 2)


def test_another_turn_of_a_round_keeps_to_the_budget(measure):
    measure([(NEAR,)] * 3)
    part = measure([(FAR,)], only=1, rounds=3)
    part["started_at"], part["ended_at"] = "2026-12-01T00:00:00Z", "2026-12-01T00:00:11Z"
    assert measure([(NEAR,)], only=1, rounds=3, part=part, budget_s=60.0) is None
    assert measure([(NEAR,)], only=1, rounds=3, part=part, budget_s=90.0)["invocations"]


def test_trips_are_kept_apart_by_host_and_threads(tmp_path):
    path = tmp_path / "machine" / placement.TRIPS_FILE
    for host, threads, ns in (("a", 2, NEAR), ("a", 4, FAR), ("b", 2, BUSY)):
        Placement(path, host, threads).add({"probe": probed(ns)})
    with path.open("a", encoding="ascii") as file:
        file.write("a 2 nonsen\na 2 -1\na 2 9")  # another job is writing
    found = Placement(path, "a", 2).states
    assert [(state["from_ns"], state["to_ns"]) for state in found][-1] == (NEAR, NEAR)
    assert Placement(path, "b", 2).states[0]["from_ns"] == BUSY
    assert Placement(path, "c", 2).states == []


def test_a_file_that_cannot_be_written_costs_no_measurement(tmp_path):
    (tmp_path / "file").touch()
    kept = Placement(Path(tmp_path, "file", "trips.txt"), "a", 2)
    kept.add({"probe": probed(NEAR)})
    assert kept.states[0]["name"] == "near"
