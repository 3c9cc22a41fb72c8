"""The loop, the warm-up and the stopping rule, on a clock that the tests move."""

from __future__ import annotations

import random

import pytest

from gemmgrid.measure.adapters.base import Call
from gemmgrid.measure.invocation import sampling, selftest
from gemmgrid.measure.invocation.loop import Loop, compile_loop

SETTINGS = {
    "warmup_s": 0.1,
    "sample_s": 0.25,
    "min_samples": 10,
    "max_samples": 2000,
    "interval": 0.01,
    "batch_s": 0.001,
}


class Machine:
    """A test double of clock and loop: each call takes `call_ns`, plus noise, plus a fence."""

    def __init__(self, monkeypatch, call_ns=1000.0, noise=0.0, fence_ns=0.0):
        self.now, self.call_ns, self.noise, self.fence_ns = 0, call_ns, noise, fence_ns
        self.chance = random.Random(1)
        self.batches = []
        for module in (sampling, selftest):
            monkeypatch.setattr(module, "clock", lambda: self.now)
        self.loop = Loop(self.batch, {}, None, fenced=fence_ns > 0)

    def batch(self, inner: int) -> int:
        elapsed = int(inner * self.call_ns * (1 + self.chance.gauss(0, self.noise)) + self.fence_ns)
        self.now += elapsed
        self.batches.append(inner)
        return elapsed

    def expires_at(self, seconds: float):
        return lambda more: self.now / 1e9 + more > seconds


def never(seconds: float) -> bool:
    return False


@pytest.mark.parametrize("call_ns", [80.0, 1000.0, 300_000.0, 2_000_000.0])
def test_batches_are_long_against_the_clock(monkeypatch, call_ns):
    machine = Machine(monkeypatch, call_ns, noise=0.01)
    warmup = sampling.warm_up(machine.loop, SETTINGS, never)
    assert 0.9 * SETTINGS["batch_s"] <= warmup.inner * call_ns / 1e9
    assert warmup.inner == 1 or warmup.inner * call_ns / 1e9 <= 2 * SETTINGS["batch_s"]
    assert warmup.seconds >= SETTINGS["warmup_s"]
    assert warmup.steady


@pytest.mark.parametrize(("call_ns", "fence_ns"), [(2_000, 30_000), (400_000, 30_000), (5, 9_000)])
def test_batches_are_long_against_the_fence(monkeypatch, call_ns, fence_ns):
    machine = Machine(monkeypatch, call_ns, noise=0.01, fence_ns=fence_ns)
    warmup = sampling.warm_up(machine.loop, SETTINGS, never)
    batch = warmup.inner * call_ns
    assert batch >= max(0.9 * 90 * fence_ns, 0.9e9 * SETTINGS["batch_s"])
    assert batch <= 4e9 * SETTINGS["batch_s"] + 2 * call_ns


def test_long_calls_are_not_repeated_for_the_fences_sake(monkeypatch):
    machine = Machine(monkeypatch, 2e9, fence_ns=30_000)
    sampling.warm_up(machine.loop, SETTINGS, never)
    assert machine.batches == [1, 1]


def test_no_fence_makes_batches_endless(monkeypatch):
    """A liar's: all the work is done behind the calls, whatever their number."""
    machine = Machine(monkeypatch, 10.0, fence_ns=50_000_000)
    warmup = sampling.warm_up(machine.loop, SETTINGS, never)
    assert warmup.inner == 1


def test_a_machine_that_speeds_up_is_warmed_up_longer(monkeypatch):
    machine = Machine(monkeypatch, 1_000_000.0)
    original = machine.batch

    def speeding(inner):
        machine.call_ns = 1_000_000 * max(0.5, 1 - machine.now / 4e8)
        return original(inner)

    machine.loop.batch = speeding
    warmup = sampling.warm_up(machine.loop, SETTINGS, never)
    assert warmup.steady
    assert 0.2 < warmup.seconds <= 0.4


def test_an_unsteady_machine_is_not_waited_for_for_ever(monkeypatch):
    machine = Machine(monkeypatch, 1_000_000.0, noise=0.5)
    warmup = sampling.warm_up(machine.loop, SETTINGS, never)
    assert warmup.seconds < 0.5


def test_a_slow_call_is_its_own_warm_up(monkeypatch):
    machine = Machine(monkeypatch, 5e9)
    warmup = sampling.warm_up(machine.loop, SETTINGS, never)
    assert (warmup.calls, warmup.inner) == (1, 1)


def test_a_quiet_machine_stops_at_the_interval(monkeypatch):
    machine = Machine(monkeypatch, 1_000_000.0, noise=0.002)
    taken = sampling.take_samples(machine.loop, 1, SETTINGS, never)
    assert taken.stop == "interval"
    assert sum(taken.elapsed_ns) >= 0.25e9
    assert len(taken.at_ns) == len(taken.elapsed_ns)
    assert taken.at_ns == sorted(taken.at_ns)


def test_a_noisy_machine_stops_at_a_plateau_or_the_time_limit(monkeypatch):
    machine = Machine(monkeypatch, 10_000_000.0, noise=0.3)
    taken = sampling.take_samples(machine.loop, 1, SETTINGS, never)
    assert taken.stop in ("plateau", "time-limit")
    assert sum(taken.elapsed_ns) <= 1.1e9


def test_the_budget_ends_it_with_what_there_is(monkeypatch):
    machine = Machine(monkeypatch, 1e9)
    taken = sampling.take_samples(machine.loop, 1, SETTINGS, machine.expires_at(3.5))
    assert taken.stop == "budget"
    assert len(taken.elapsed_ns) == 3


def test_no_more_samples_than_are_kept(monkeypatch):
    machine = Machine(monkeypatch, 1000.0, noise=0.5)
    settings = SETTINGS | {"max_samples": 50}
    taken = sampling.take_samples(machine.loop, 1, settings, never)
    assert (taken.stop, len(taken.elapsed_ns)) == ("max-samples", 50)


def test_the_interval_of_the_stopping_rule():
    assert sampling.relative_interval([100] * 20) == 0
    wide = sampling.relative_interval([90, 100, 110] * 10)
    assert wide == pytest.approx(1.57 * 20 / 30**0.5 / 100, rel=0.1)


def test_work_that_scales_passes_the_self_test(monkeypatch):
    machine = Machine(monkeypatch, 100_000.0, noise=0.05, fence_ns=50_000)
    found = selftest.doubling(machine.loop, 10, never)
    assert found["ok"]
    assert found["ratio"] == pytest.approx(2, abs=0.3)


def test_work_that_does_not_scale_fails_it(monkeypatch):
    machine = Machine(monkeypatch, 0.0, fence_ns=1_000_000)
    found = selftest.doubling(machine.loop, 10, never)
    assert not found["ok"]
    assert "twice the work" in found["reason"]


def test_the_self_test_says_when_there_is_no_time_for_it(monkeypatch):
    machine = Machine(monkeypatch, 1e9)
    found = selftest.doubling(machine.loop, 1, machine.expires_at(2))
    assert found["ok"]
    assert found["ratio"] is None
    assert found["reason"]


def test_work_behind_the_fence_is_found(monkeypatch):
    machine = Machine(monkeypatch, 1_000_000.0)
    pending = [0]
    machine.loop.batch = lambda inner: pending.__setitem__(0, 8_000_000) or 10_000

    def fetch():
        machine.now += pending[0] + 20_000
        pending[0] = 0

    found = selftest.leftover(machine.loop, 1, fetch, never)
    assert not found["ok"]
    assert "still running" in found["reason"]


def test_a_slow_fetch_is_not_work(monkeypatch):
    machine = Machine(monkeypatch, 1_000_000.0)

    def fetch():
        machine.now += 30_000_000

    assert selftest.leftover(machine.loop, 1, fetch, never)["ok"]


def test_the_statement_itself_is_the_body_of_the_loop():
    calls = []
    fences = []
    call = Call(
        statement="C = f(A, B)",
        names={
            "f": lambda a, b: calls.append((a, b)) or len(calls),
            **{"A": 1, "B": 2, "wait": fences.append},
        },
        result=lambda names: names["C"],
        fence="wait(C)",
    )
    loop = compile_loop(call)
    assert loop.batch(5) > 0
    assert calls == [(1, 2)] * 5
    assert fences == [5]
    assert call.result(loop.names) == 5


def test_statements_on_several_lines_and_rotating_operands():
    seen = []
    call = Call(
        statement="C = A + B\nlog(C)",
        names={"log": seen.append, "A": 0, "B": 100},
        result=lambda names: names["C"],
        sets=[{"A": 1}, {"A": 2}, {"A": 3}],
    )
    loop = compile_loop(call)
    loop.batch(4)
    loop.batch(1)
    assert seen == [101, 102, 103, 101, 102]
    assert loop.names["A"] == 2
    assert call.result(loop.names) == 102


def test_the_device_clock_stops_before_the_host_waits():
    """Behind the fence it would count the waiting, and device time would be host time."""
    order = []

    class Timer:
        def start(self):
            order.append("start")

        def stop(self):
            order.append("stop")

        def read(self):
            order.append("read")
            return 7

    for sets in (None, [{"x": 1}, {"x": 2}]):
        order.clear()
        call = Call(
            statement="work(x)",
            names={
                "work": lambda x: order.append("work"),
                "wait": lambda: order.append("fence"),
                "x": 0,
            },
            result=lambda names: None,
            fence="wait()",
            device_timer=Timer,
            sets=sets,
        )
        assert compile_loop(call).device_batch(2)[1] == 7
        assert order == ["start", "work", "work", "stop", "fence", "read"]
