"""What the kernel counts: tried with what this process does to itself."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from gemmgrid.measure.invocation.counters import Counters
from gemmgrid.measure.perf_events import SOFTWARE, TASK_CLOCK, available

linux = pytest.mark.skipif(not available(), reason="hardware: needs Linux")


def spin(cpu_s: float) -> None:
    end = time.process_time() + cpu_s
    while time.process_time() < end:
        pass


@linux
def test_a_thread_is_counted_between_start_and_stop():
    """Nanoseconds stand in for cycles, which a virtual machine may not have."""
    counters = Counters((SOFTWARE, TASK_CLOCK))
    spin(0.05)
    counters.start()
    spin(0.05)
    counters.stop()
    spin(0.05)
    found = counters.record()
    assert found["task_clock_s"] == pytest.approx(0.05, rel=0.5)
    assert found["cycles"] == pytest.approx(found["task_clock_s"] * 1e9, rel=0.5)


def test_cycles_are_known_or_the_reason_is():
    counters = Counters()
    counters.start()
    spin(0.01)
    counters.stop()
    found = counters.record()
    assert (found["cycles"] or 0) > 0 or found["unknown"]["cycles"]


@linux
def test_migrations_and_switches_are_those_that_were_forced():
    home = os.sched_getaffinity(0)
    cpus = sorted(home)
    if len(cpus) < 2:
        pytest.skip("hardware: needs two CPUs")
    os.sched_setaffinity(0, cpus[:1])
    try:
        counters = Counters()
        counters.start()
        for turn in range(1, 9):
            os.sched_setaffinity(0, {cpus[turn % 2]})
            time.sleep(0.001)
        counters.stop()
    finally:
        os.sched_setaffinity(0, home)
    found = counters.record()
    assert found["migrations"] >= 8
    assert found["switches"] - found["preempted"] >= 8


def test_without_samples_nothing_is_known():
    found = Counters().record()
    assert set(found["unknown"]) == set(found) - {"unknown"}
    assert all(found[key] is None for key in found["unknown"])


@linux
def test_no_descriptor_stays_open():
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        counters = Counters((SOFTWARE, TASK_CLOCK))
        counters.start()
        counters.stop()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
