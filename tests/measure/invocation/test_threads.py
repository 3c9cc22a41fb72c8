"""The census of threads: on threads that burn, sleep, take turns or end, and on real libraries."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import time

import pytest

from gemmgrid.measure.invocation import threads
from gemmgrid.measure.invocation.threads import Census, Snapshot, judge, threads_seen
from tests.measure import machine_trees as trees

needs_proc = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="threads are listed on Linux only"
)
EIGHT = {"affinity_before": [*range(8)], "affinity_after": [*range(8)]}


def burn(until: threading.Event, burned: list[float], index: int) -> None:
    """Keep one core busy without the interpreter's lock: hashing large blocks releases it."""
    block = bytes(1 << 20)
    while not until.is_set():
        hashlib.sha256(block)
        burned[index] = time.thread_time()


def census_over(workers: int, burn_s: float = 0.1) -> Census:
    """A census of a window in which so many threads burn and the main thread waits.

    It lasts until each of them had a CPU for `burn_s`, however busy the machine is.
    """
    census = Census()
    census.imported()
    done, burned = threading.Event(), [0.0] * workers
    team = [threading.Thread(target=burn, args=(done, burned, index)) for index in range(workers)]
    for thread in team:
        thread.start()
    while not all(burned):
        time.sleep(0.01)
    before = list(burned)
    census.start()
    while any(now - then < burn_s for now, then in zip(burned, before, strict=True)):
        time.sleep(0.01)
    census.stop()
    done.set()
    for thread in team:
        thread.join()
    return census


@needs_proc
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_burning_threads_are_counted(workers):
    """Also when there are more of them than CPUs: waiting for a CPU counts as working."""
    found = census_over(workers).result(asked=workers, library=None)
    assert found["seen"] == workers
    assert found["os"] >= 1
    assert 0 < found["burned"] <= workers + 0.1
    assert judge(found | EIGHT) == []
    assert found["unknown"]["library"]


@needs_proc
def test_sleeping_threads_are_not_counted():
    done = threading.Event()
    sleepers = [threading.Thread(target=done.wait) for _ in range(3)]
    for thread in sleepers:
        thread.start()
    try:
        found = census_over(1).result(asked=4, library=4)
    finally:
        done.set()
    assert found["seen"] == 1
    assert found["os"] >= 4
    assert judge(found | EIGHT) == ["wrong-threads"]


@needs_proc
def test_threads_that_ended_are_inferred_from_the_process():
    census = Census()
    census.imported()
    census.start()
    done, burned = threading.Event(), [0.0, 0.0]
    team = [threading.Thread(target=burn, args=(done, burned, index)) for index in range(2)]
    for thread in team:
        thread.start()
    while min(burned) < 0.1:
        time.sleep(0.01)
    done.set()
    for thread in team:
        thread.join()
    census.stop()
    found = census.result(2, None)
    assert found["seen"] == max(1, round(found["burned"]))


def test_a_census_without_a_window():
    found = Census().result(2, 2)
    assert (found["seen"], found["burned"], found["window_s"]) == (None, None, None)
    assert found["unknown"]["seen"] == "no samples were taken"
    assert judge(found) == []


@needs_proc
def test_a_changed_affinity_is_seen():
    before = os.sched_getaffinity(0)
    if len(before) < 2:
        pytest.skip("hardware: one CPU only: its affinity cannot be narrowed")
    census = Census()
    try:
        os.sched_setaffinity(0, {min(before)})
        census.imported()
    finally:
        os.sched_setaffinity(0, before)
    found = census.result(1, 1)
    assert found["affinity_before"] == sorted(before)
    assert found["affinity_after"] == [min(before)]
    assert judge(found) == ["affinity-changed"]


def snapshots(spent: dict[str, tuple[float, float]], process_s: float, wall_s: float = 1.0):
    start = Snapshot(0.0, 0.0, dict.fromkeys(spent, (5.0, 1.0)))
    after = {name: (5.0 + ran, 1.0 + waited) for name, (ran, waited) in spent.items()}
    return start, Snapshot(wall_s, process_s, after)


@pytest.mark.parametrize(
    ("spent", "process_s", "seen"),
    [
        ({"1": (1.0, 0.0)}, 1.0, 1),
        ({"1": (1.0, 0.0), "2": (0.98, 0.0)}, 1.98, 2),
        # a housekeeping thread
        ({"1": (1.0, 0.0), "2": (0.07, 0.0)}, 1.07, 1),
        # a hand-over between main thread and worker: JAX and MLX with one thread
        ({"1": (0.49, 0.0), "2": (0.47, 0.0), "3": (0.0, 0.0)}, 0.95, 1),
        # eight that wait for the slowest now and then
        ({str(i): (0.75, 0.0) for i in range(8)}, 6.0, 8),
        # eight on four free CPUs: half of the time they waited for one
        ({str(i): (0.5, 0.5) for i in range(8)}, 4.0, 8),
        # an uneven division of the work
        ({"1": (1.0, 0.0), "2": (0.5, 0.0), "3": (0.5, 0.0)}, 2.0, 3),
        # threads that are gone, and systems without /proc
        ({"1": (0.1, 0.0)}, 2.0, 2),
        ({}, 3.9, 4),
        ({}, 0.2, 1),
    ],
)
def test_who_counts(spent, process_s, seen):
    assert threads_seen(*snapshots(spent, process_s)) == seen


def test_an_empty_window_sees_nothing():
    assert threads_seen(*snapshots({"1": (0.0, 0.0)}, 0.0)) is None
    assert threads_seen(*snapshots({}, 1.0, wall_s=0.0)) is None


def record(**changes):
    quiet = {"asked": 2, "library": 2, "seen": 2, "window_s": 0.5, "quota": None}
    return {**quiet, "affinity_before": [0, 1], "affinity_after": [0, 1], **changes}


@pytest.mark.parametrize(
    ("changes", "call_s", "flags"),
    [
        ({}, 0.01, []),
        ({"seen": 1}, 0.01, ["wrong-threads"]),
        ({"seen": 4}, 0.01, ["wrong-threads"]),
        ({"library": 1}, 0.01, ["wrong-threads"]),
        ({"library": None}, 0.01, []),
        ({"seen": 1}, None, ["wrong-threads"]),
        # a small product on one thread is the library's right
        ({"seen": 1}, 20e-6, []),
        ({"asked": 1, "library": 1, "seen": 2}, 20e-6, []),
        ({"asked": 1, "library": 1, "seen": 3}, 20e-6, ["wrong-threads"]),
        ({"asked": 1, "library": 1, "seen": 2}, 0.01, ["wrong-threads"]),
        # a quarter of a large team may be missing
        (EIGHT | {"asked": 8, "library": 8, "seen": 6}, 0.01, []),
        (EIGHT | {"asked": 8, "library": 8, "seen": 4}, 0.01, ["wrong-threads"]),
        (EIGHT | {"asked": 3, "library": 3, "seen": 2}, 0.01, ["wrong-threads"]),
        # the work of two wanders over four on a machine that others keep busy
        ({"seen": 4, "burned": 0.7, "waited": 2.1}, 0.01, []),
        # eight threads that crowd each other on all the CPUs there are
        ({"seen": 8, "burned": 1.99, "waited": 6.0}, 0.01, ["wrong-threads"]),
        # more CPUs than asked for
        ({"seen": 4, "burned": 3.9, "waited": 0.0}, 0.01, ["wrong-threads"]),
        # too short to be judged
        ({"seen": 1, "window_s": 0.02}, 0.01, []),
        ({"quota": 1.5}, 0.01, ["quota"]),
        ({"quota": 2.0}, 0.01, []),
        # more threads than CPUs, which is seen however well they are shared
        ({"affinity_before": [1], "affinity_after": [1]}, 0.01, ["oversubscribed"]),
        ({"affinity_after": [0]}, 0.01, ["affinity-changed"]),
        ({"affinity_before": None, "affinity_after": None}, 0.01, []),
    ],
)
def test_judging(changes, call_s, flags):
    assert judge(record(**changes), call_s=call_s) == flags


def test_kernels_without_scheduler_statistics(tmp_path):
    """Clock ticks, after a name that may hold spaces and parentheses."""
    fields = " ".join(str(number) for number in range(4, 30)).split()
    fields[10], fields[11] = "250", "50"  # utime and stime are fields 14 and 15 of the line
    trees.write(tmp_path, "proc/self/task/7/stat", f"7 (py (th) on) S {' '.join(fields)}")
    ticks = os.sysconf("SC_CLK_TCK")
    assert threads._threads(tmp_path) == {"7": (300 / ticks, 0.0)}
    trees.write(tmp_path, "proc/self/task/8/schedstat", "1500000000 250000000 9")
    assert threads._threads(tmp_path)["8"] == (1.5, 0.25)


@needs_proc
def test_reading_the_clocks_does_not_burn_them():
    first = threads.snapshot()
    second = threads.snapshot()
    assert set(second.threads) >= {str(os.getpid())}
    assert second.process_s >= first.process_s
