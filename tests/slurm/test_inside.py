"""One allocation, made by hand, in which the workflow runs with its local executor."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.slurm.cluster import run
from tests.slurm.project import MACHINES, SlurmProject


def submit(project: SlurmProject, *options: str, machine: str, cores: str = "all") -> str:
    """An sbatch job that runs the workflow, waited for; what it printed."""
    log = project.folder / "job.log"
    command = (
        f"{sys.executable} -m snakemake --cores {cores} --configfile {project.study} "
        f"--config machine={machine}"
    )
    where = ["--wait", "--exclusive", "-D", str(project.folder), "-o", str(log), "-t", "5"]
    run("sbatch", *where, *options, "--wrap", command, check=False)
    return log.read_text()


def inside(project: SlurmProject) -> None:
    project.configure(project.tiny())


def test_the_same_cells_under_the_machines_name(cluster, project):
    inside(project)
    output = submit(project, "-p", "cpu", "-C", "milan", "-c", "2", machine="milan")
    cells = project.cells("milan")
    assert sorted(cells) == [
        "numpy-openblas/gemm.float32.32x32x32.t1",
        "numpy-openblas/gemm.float32.48x48x48.t1",
    ], output
    for (one,) in cells.values():
        assert one["status"] == "ok"
        assert one["slurm"]["node"] == "mil1"
        assert one["slurm"]["exclusive"] is True
        assert "other-machine" not in one["flags"]
    assert (project.folder / "reports/index.html").exists()
    # The same study through SLURM finds all of it done.
    project.send_to(milan=MACHINES["milan"])
    assert "cells to measure" not in project.snakemake()
    assert set(project.counts_of("milan").values()) == {1}


def test_the_promise_holds_there_too(cluster, project):
    project.send_to(fat=MACHINES["fat"])
    inside(project)
    output = submit(project, "-p", "fat", "-c", "2", machine="fat")
    for (one,) in project.cells("fat").values():
        assert one["promise"]["broken"] == ["64 CPUs are promised, 2 may be used"], output
        assert "other-machine" in one["flags"]


def test_a_shared_node_is_flagged(cluster, project):
    inside(project)
    log = project.folder / "job.log"
    command = (
        f"{sys.executable} -m snakemake --cores 1 --configfile {project.study} "
        "--config machine=icelake"
    )
    run(
        *("sbatch", "--wait", "-p", "cpu", "-C", "icelake", "-c", "1", "-t", "5"),
        *("-D", str(project.folder), "-o", str(log), "--mem=2000", "--wrap", command),
        check=False,
    )
    (one, *_), *_ = project.cells("icelake").values()
    assert one["slurm"]["exclusive"] is False, Path(log).read_text(encoding="utf-8")
    assert "shared-node" in one["flags"]
