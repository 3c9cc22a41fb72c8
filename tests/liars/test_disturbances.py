"""What disturbs an honest library while it is measured is named by a flag."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.liars.measuring import measured

NAME = "gemm.float32.256x256x256.t1"
GROUPS = Path("/sys/fs/cgroup")
PERIOD_US = 100_000


def processes() -> list[psutil.Process]:
    """The process that is measured now; none between two."""
    found = psutil.Process().children()
    return [one for one in found if "gemmgrid.measure.invocation" in one.cmdline()]


def stage(process: psutil.Process) -> str:
    file = Path(process.cmdline()[-1]).with_suffix(".stage")
    return file.read_text("ascii") if file.exists() else "start"


def test_a_busy_neighbour_is_named():
    cpu = min(os.sched_getaffinity(0))
    neighbour = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        os.sched_setaffinity(neighbour.pid, {cpu})
        found = measured("numpy", NAME)
    finally:
        neighbour.kill()
        neighbour.wait()
    assert found["status"] == "ok", found["reason"]
    assert "loaded" in found["flags"]
    (one, *_) = found["invocations"]
    assert "loaded" in one["flags"]
    assert one["conditions"]["after"]["others_cpus"] > 0.1


def test_a_process_that_is_moved_between_cpus_is_named():
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("hardware: needs two CPUs")
    turns = []

    def move() -> None:
        for process in processes():
            if stage(process) == "sample":
                turns.append(cpus[len(turns) % 2])
                process.cpu_affinity([turns[-1]])

    found = measured("numpy", NAME, move, sample_s=1.0)
    assert found["status"] == "ok", found["reason"]
    assert "affinity-changed" in found["flags"]
    (one, *_) = found["invocations"]
    assert one["threads"]["affinity_before"] == cpus
    assert len(one["threads"]["affinity_after"]) == 1
    assert one["counters"]["migrations"] >= 1


@pytest.fixture
def limit() -> Iterator[Path]:
    """The file of a CPU quota that holds for this process; none is set. Both kinds of groups."""
    old = Path(GROUPS, "cpu/cpu.cfs_quota_us").parent
    folder = (old if old.is_dir() else GROUPS) / f"gemmgrid-test-{os.getpid()}"
    lines = Path("/proc/self/cgroup").read_text("ascii").splitlines()
    paths = {kind: path for _, kind, path in (line.split(":", 2) for line in lines)}
    home = folder.parent / paths.get("cpu" if old.is_dir() else "", "/").lstrip("/")
    try:
        folder.mkdir()
        if not old.is_dir():
            Path(GROUPS, "cgroup.subtree_control").write_text("+cpu", "ascii")
        Path(folder, "cgroup.procs").write_text(str(os.getpid()), "ascii")
    except OSError as error:
        pytest.skip(f"root: no control group can be made here ({error.strerror})")
    try:
        yield next(
            file
            for name in ("cpu.max", "cpu.cfs_quota_us")
            if (file := Path(folder, name)).exists()
        )
    finally:
        Path(home, "cgroup.procs").write_text(str(os.getpid()), "ascii")
        folder.rmdir()


def test_a_quota_that_slows_the_second_half_is_named(limit: Path):
    first = []

    def slow_down() -> None:
        for process in processes():
            first.append(process.pid)
            if process.pid != first[0]:
                limit.write_text(str(PERIOD_US // 4), "ascii")

    found = measured("numpy", NAME, slow_down, invocations=2)
    assert found["status"] == "ok", found["reason"]
    assert "quota" in found["flags"]
    fast, slow, *_ = found["invocations"]
    assert "quota" not in fast["flags"]
    assert "quota" in slow["flags"]
    assert slow["threads"]["quota"] == 0.25
