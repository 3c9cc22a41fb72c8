"""The probe on this machine's own CPUs."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import threading
import time

import pytest

from gemmgrid.measure import code_pages
from gemmgrid.measure.probe import team
from gemmgrid.measure.probe.probe import Probe
from gemmgrid.measure.probe.team import Team, UnknowableError
from tests.measure.interpreters import variables

ALLOWED = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
pytestmark = pytest.mark.skipif(
    platform.machine() not in team.CODE or not ALLOWED,
    reason="hardware: the probe runs on Linux, on x86-64 and 64-bit Arm",
)


def test_a_trip_between_two_cpus_takes_as_long_as_light_and_caches_need():
    if len(ALLOWED) < 2:
        pytest.skip("hardware: one CPU")
    found = Team(ALLOWED[:2]).trips()
    assert [pair["cpus"] for pair in found] == [ALLOWED[:2]]
    assert 1 <= len(found[0]["ns"]) <= team.CHUNKS
    assert min(found[0]["ns"]) > 5  # less than any line takes


def test_one_cpu_has_nobody_to_send_a_line_to():
    assert Team(ALLOWED[:1]).trips() == []


def test_every_pair_of_few_cpus_and_a_chain_of_many():
    assert team.pairs(3) == ([(0, 1), (0, 2), (1, 2)], 3)
    assert len(team.pairs(8)[0]) == 28
    assert team.pairs(9) == ([(i, i + 1) for i in range(8)], 2)
    assert team.pairs(1)[0] == []


@pytest.mark.parametrize("vectors", [*team.CODE.get(platform.machine(), team.code_x86_64).VECTORS])
def test_arithmetic_in_all_vectors_that_this_processor_has(vectors):
    widest = Team(ALLOWED[:1])
    names = list(widest._code.VECTORS)
    if names.index(vectors) < names.index(widest.vectors):
        pytest.skip(f"hardware: no {vectors}")
    probed = Team(ALLOWED[:1], vectors)
    single, double = (max(probed.flops(dtype)["all"]) for dtype in ("float32", "float64"))
    # Each is at least an operation a nanosecond and an element, and float32 holds twice as many.
    assert double > 1e9
    assert 1.3 < single / double < 3


def test_wider_vectors_are_faster():
    widest = Team(ALLOWED[:1])
    if widest.vectors not in ("avx512", "avx2"):
        pytest.skip("hardware: vectors of one width")
    narrow = Team(ALLOWED[:1], "sse2")
    best = [max(max(one.flops("float64")["all"]) for _ in range(3)) for one in (widest, narrow)]
    assert best[0] > 1.5 * best[1]


def test_all_cpus_add_up_and_the_slowest_is_one_of_them():
    found = Team(ALLOWED[:2]).flops("float32")
    for together, slowest in zip(found["all"], found["slowest"], strict=True):
        assert together >= len(ALLOWED[:2]) * slowest * 0.999


def test_memory_moves_what_it_says():
    start = time.perf_counter()
    found = Team(ALLOWED[:2]).memory(8 << 20)
    took = time.perf_counter() - start
    assert 8 << 20 <= found["bytes"] < (8 << 20) + (1 << 20)
    for name in ("triad", "read"):
        assert len(found[name]) == team.PASSES
        # A pass cannot take longer than everything together, nor reach a petabyte a second.
        assert found["bytes"] / took < min(found[name]) <= max(found[name]) < 1e15


def test_the_probe_leaves_the_process_where_it_may_run():
    before, threads = os.sched_getaffinity(0), threading.active_count()
    probe = Probe("cpu", 2)
    probe.around("before")
    assert os.sched_getaffinity(0) == before
    assert threading.active_count() == threads
    assert set(probe.record["before"]) == {"trips", "float32", "float64"}
    assert probe.record["unknown"] == {}


BUSY = """
import os, sys, threading, time
from gemmgrid.measure.probe.probe import Probe

last, spent, ready = max(os.sched_getaffinity(0)), time.thread_time(), threading.Event()

def burn():
    os.sched_setaffinity(0, {last})
    while time.thread_time() < spent + 0.2:
        pass
    ready.set()
    done.wait()

done = threading.Event()
threading.Thread(target=burn).start()
ready.wait()
print(*Probe("cpu", 1).record["cpus"], *Probe("cpu", 4096).record["cpus"])
done.set()
"""


def test_the_cpus_are_those_that_busy_threads_ran_on():
    done = subprocess.run(
        [sys.executable, "-c", BUSY], env=variables(), capture_output=True, text=True, check=True
    )
    assert [int(word) for word in done.stdout.split()] == [ALLOWED[-1], *ALLOWED]


def test_a_gpu_s_work_is_not_probed():
    record = Probe("cuda", 2).record
    assert record["cpus"] is None
    assert "cuda" in record["unknown"]["before"]


def test_a_hardened_system_is_not_known(monkeypatch):
    def refuse(code, name):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(code_pages, "place", refuse)
    monkeypatch.setattr(team, "_placed_loops", {})
    probe = Probe("cpu", 2)
    probe.around("before")
    probe.memory(None)
    assert (probe.record["before"], probe.record["memory"]) == (None, None)
    for key in ("cpus", "vectors", "before", "after", "memory"):
        assert "no new executable memory (Permission denied)" in probe.record["unknown"][key]


def test_memory_that_is_not_given_is_not_known(monkeypatch):
    def refuse(self, size):
        raise OSError(12, "Cannot allocate memory")

    probe = Probe("cpu", 1)
    monkeypatch.setattr(team.Words, "__init__", refuse)
    probe.memory(1 << 25)
    assert probe.record["memory"] is None
    assert "Cannot allocate memory" in probe.record["unknown"]["memory"]


def test_other_systems_and_processors_are_not_known(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(platform, "machine", lambda: "riscv64")
        assert "riscv64" in Probe("cpu", 1).record["unknown"]["before"]
    with monkeypatch.context() as patch:
        patch.delattr(os, "sched_setaffinity")
        patch.setattr(platform, "system", lambda: "Darwin")
        assert "Darwin lets no thread" in Probe("cpu", 1).record["unknown"]["before"]


def test_a_cpu_that_never_runs_its_thread_is_named(monkeypatch):
    monkeypatch.setattr(team, "PATIENCE", 1)
    words = team.Words(4096)
    with pytest.raises(UnknowableError, match="did not get its thread"):
        Team(ALLOWED[:1])._call("bounce", words.address, 2, 1, words.address + 256, 0)
