"""The submit host is interrupted, and the same command goes on: nothing measured is lost."""

from __future__ import annotations

import os
import signal
import subprocess

from tests.slurm.cluster import Cluster
from tests.slurm.project import SlurmProject, wait_until

SHAPES = [256, 272, 288]


def begin(project: SlurmProject, cluster: Cluster) -> subprocess.Popen[str]:
    """Three cells of some seconds each in one allocation: one is done, one has begun."""
    project.configure({**project.tiny(SHAPES, 0.8), "machines": ["icelake"]})
    process = project.start()
    cluster.wait_for_job("ice1")
    wait_until(lambda: len(project.kept()) >= 1, what="a cell that is done")
    return process


def finish(process: subprocess.Popen[str], seconds: float = 300) -> str:
    try:
        return process.communicate(timeout=seconds)[0]
    finally:
        process.kill()


def go_on(project: SlurmProject) -> str:
    """The same command again measures what is missing, and nothing twice."""
    output = project.snakemake()
    found = project.statuses()
    assert list(found.values()) == [["ok"]] * len(SHAPES), output
    assert project.kept() == []
    return output


def test_ctrl_c_ends_the_allocations_and_the_same_command_goes_on(cluster, project):
    process = begin(project, cluster)
    os.killpg(process.pid, signal.SIGINT)
    output = finish(process)
    assert process.returncode != 0
    wait_until(lambda: not cluster.jobs(), 30, "the cancelled jobs")
    assert all(found == ["ok"] for found in project.statuses().values()), output
    before = {name: runs[0]["id"] for name, runs in project.cells("icelake").items()}
    assert before, output  # begin() waited for one that was done
    go_on(project)
    after = {name: runs[0]["id"] for name, runs in project.cells("icelake").items()}
    assert before.items() <= after.items()


def test_sigterm_lets_the_allocations_end_and_keeps_what_they_measured(cluster, project):
    process = begin(project, cluster)
    os.kill(process.pid, signal.SIGTERM)
    output = finish(process)
    assert "Will exit after finishing currently running jobs" in output
    assert not cluster.jobs()
    assert list(project.statuses().values()) == [["ok"]] * len(SHAPES), output
    assert "cells to measure" not in go_on(project)


def test_a_killed_workflow_is_taken_up(cluster, project):
    process = begin(project, cluster)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    (job,) = cluster.jobs()
    kept = {path.name for path in project.kept()}
    output = go_on(project)
    assert "of allocations that did not end well are kept" in output
    assert f"cancelled SLURM jobs {job} of an interrupted run" in output
    # Between the kill and the new start the allocation may have finished some more.
    left = [f"{count} of {len(SHAPES)} cells to measure" for count in range(len(SHAPES))]
    assert any(text in output for text in left[: len(SHAPES) - len(kept) + 1])


def test_ctrl_c_while_allocations_are_being_sent(cluster, project):
    """Ten allocations for two nodes: some are at SLURM, some are on their way, some are not yet."""
    shapes = list(range(32, 192, 16))
    project.configure({**project.tiny(shapes, 1.0), "machines": ["icelake"]})
    process = project.start("--config", "cells_per_allocation=1")
    assert process.stdout
    for line in process.stdout:
        if "sent as SLURM job" in line:
            break
    os.killpg(process.pid, signal.SIGINT)
    output = finish(process)
    assert process.returncode != 0
    wait_until(lambda: not cluster.jobs(), what="the cancelled jobs")
    assert all(found == ["ok"] for found in project.statuses().values()), output
    assert len(project.statuses()) < len(shapes)


def test_a_new_measurement_after_a_kill_is_a_new_one(cluster, project):
    """The workflow is killed, the allocation ends: what lies about is no new measurement."""
    project.configure({**project.tiny(SHAPES[:2], 1.0), "machines": ["icelake"]})
    process = project.start()
    wait_until(lambda: len(project.kept()) == 1, what="a cell that is done")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    wait_until(lambda: not cluster.jobs(), what="the end of the allocation")
    assert len(project.kept()) == 2
    name = f"numpy-openblas/gemm.float32.{SHAPES[0]}x{SHAPES[0]}x{SHAPES[0]}.t1"
    output = project.snakemake("-f", f"results/icelake/{name}.jsonl")
    assert "1 cell of icelake sent as SLURM job" in output
    runs = project.cells("icelake")
    assert [len(one) for one in runs.values()] == [2, 1]
    assert len({run["id"] for run in runs[name]}) == 2
    assert project.kept() == []
