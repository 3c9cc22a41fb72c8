"""States from trips alone: as they were measured, few of them, one state, three, and disturbed."""

from __future__ import annotations

import math
import random

import pytest

from gemmgrid.records import states

NEAR, FAR, SOCKETS = (80.0, 138.0), (371.0, 427.0), (900.0, 1100.0)
"""5 to 95 % of the trips of two states, as measured, and of a third that was not seen."""


def drawn(span: tuple[float, float], count: int, seed: int = 1) -> list[float]:
    """Lognormal trips with these 5 and 95 % quantiles."""
    low, high = map(math.log, span)
    generator = random.Random(seed)
    return [math.exp(generator.gauss((low + high) / 2, (high - low) / 3.29)) for _ in range(count)]


def names(trips: list[float]) -> list[str]:
    return [state["name"] for state in states.states(trips)]


def process(before: float, after: float | None = None) -> dict:
    halves = {"before": before, "after": before if after is None else after}
    return {
        "probe": {
            when: {"trips": [{"cpus": [0, 1], "ns": [ns, 1.1 * ns, 9e5]}]}
            for when, ns in halves.items()
        }
    }


@pytest.mark.parametrize("seed", range(20))
def test_near_and_far_as_measured(seed):
    trips = drawn(NEAR, 240, seed) + drawn(FAR, 210, seed + 100)
    random.Random(seed).shuffle(trips)
    borders = states.states(trips)
    assert [state["name"] for state in borders] == ["near", "far"]
    assert borders[0]["to_ns"] < 300 < borders[1]["from_ns"]
    assert states.name_of(100, borders) == "near"
    assert states.name_of(400, borders) == "far"
    assert states.name_of(5000, borders) == "disturbed"


@pytest.mark.parametrize("seed", range(20))
def test_trips_that_saw_a_change_do_not_join_two_states(seed):
    between = drawn((150.0, 350.0), 9, seed)
    assert names(drawn(NEAR, 240, seed) + between + drawn(FAR, 200, seed)) == ["near", "far"]


@pytest.mark.parametrize("span", [NEAR, FAR])
@pytest.mark.parametrize("count", [1, 2, 5, 40, 450])
def test_one_state_is_near_whatever_its_time(span, count):
    for seed in range(10):
        trips = drawn(span, count, seed)
        borders = states.states(trips)
        # Of 450, one or two may lie outside: too few to be a state.
        assert [state["name"] for state in borders] == ["near"]
        named = [states.name_of(trip, borders) for trip in trips]
        assert named.count("near") >= 0.99 * count


@pytest.mark.parametrize(("near", "far"), [(4, 1), (1, 4), (3, 2)])
def test_a_few_processes_are_enough(near, far):
    for seed in range(20):
        trips = drawn(FAR, far, seed) + drawn(NEAR, near, seed)
        borders = states.states(trips)
        assert [(state["name"], state["count"]) for state in borders] == [
            ("near", near),
            ("far", far),
        ]


def test_three_states():
    trips = drawn(NEAR, 100) + drawn(FAR, 80) + drawn(SOCKETS, 60)
    assert names(trips) == ["near", "far", "farther"]


def test_what_software_delays_is_disturbed():
    delayed = [3000.0, 5000.0, 80_000.0, 245_000.0, 246_000.0]
    borders = states.states(drawn(NEAR, 20) + delayed)
    assert [state["name"] for state in borders] == ["near"]
    assert {states.name_of(trip, borders) for trip in delayed} == {"disturbed"}


def test_a_machine_that_was_busy_most_of_the_time():
    busy = drawn((5000.0, 300_000.0), 200)
    borders = states.states(drawn(NEAR, 40) + busy)
    assert [state["name"] for state in borders] == ["near"]
    assert states.name_of(busy[0], borders) == "disturbed"


def test_old_trips_are_forgotten():
    assert names(drawn(NEAR, 400) + drawn(FAR, states.REMEMBERED)) == ["near"]


def test_one_odd_trip_is_not_what_a_machine_can_do():
    borders = states.states([20.0, *drawn(NEAR, 100)])
    assert len(borders) == 1
    assert borders[0]["from_ns"] > 50


def test_a_shorter_trip_than_any_is_of_the_best_state():
    assert states.name_of(30.0, states.states(drawn(FAR, 5))) == "near"


def test_a_process_has_the_state_of_both_its_probes():
    borders = states.states(drawn(NEAR, 50) + drawn(FAR, 50))
    assert states.state_of(process(100), borders) == "near"
    assert states.state_of(process(400), borders) == "far"
    assert states.state_of(process(100, 400), borders) == "changed"
    assert states.state_of({"probe": {"before": {"trips": []}, "after": None}}, borders) is None
    assert states.state_of({}, borders) is None


def test_trips_of_several_pairs_are_one_figure():
    half = {"trips": [{"cpus": [0, 1], "ns": [100.0]}, {"cpus": [0, 2], "ns": [400.0]}]}
    assert states.trip_ns(half) == pytest.approx(200)


def test_processes_of_another_state_than_the_best_seen_are_set_aside():
    borders = states.states(drawn(NEAR, 50) + drawn(FAR, 50))
    near, far, moved, mute = process(100), process(400), process(100, 400), {}
    found = states.sort([far, near, moved, mute], borders)
    assert found.counted == [near, mute]
    assert found.aside == [(far, "far"), (moved, "changed")]
    assert found.best_seen == "near"
    assert states.sort([far, moved], borders).best_seen == "far"
    assert states.sort([mute], borders) == states.Sorted([mute], [], None)
