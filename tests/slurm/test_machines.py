"""One submission, several machine types, one report."""

from __future__ import annotations

import json

import pytest

from tests.measure.interpreters import interpreter
from tests.slurm.cluster import Cluster
from tests.slurm.project import MACHINES, SlurmProject
from tests.workflow.project import measured


@pytest.fixture(scope="module")
def grid(running_cluster: Cluster, tmp_path_factory) -> tuple[SlurmProject, str]:
    """Two CPU types, a GPU type without a GPU, and a node with fewer CPUs than promised."""
    project = SlurmProject(tmp_path_factory.mktemp("grid"))
    project.add_backend(
        "torch-gpu",
        adapter="torch",
        device="cuda",
        environment="torch-gpu",
        platforms=["linux-x86_64"],
        dtypes=["float32"],
        python=str(interpreter("torch-cpu")),
    )
    project.send_to(**MACHINES)
    study = project.tiny()
    study["grid"].append(
        {"routine": "gemm", "backends": ["torch-gpu"], "dtypes": ["float32"], "shapes": [64]}
    )
    project.configure({**study, "machines": list(MACHINES), "evidence": True})
    return project, project.snakemake(code=1)


def test_every_machine_gets_its_cells_in_one_allocation(grid):
    project, output = grid
    statuses = project.statuses()
    assert {name.split("/")[0] for name in statuses} == set(MACHINES), output
    assert statuses["icelake/numpy-openblas/gemm.float32.32x32x32.t1"] == ["ok"]
    assert measured(output) == 9
    for name, cells in (("icelake", 2), ("milan", 2), ("h200", 3), ("fat", 2)):
        assert f"{cells} cells of {name} sent as SLURM job" in output
        jobs = {run["slurm"]["job_id"] for runs in project.cells(name).values() for run in runs}
        assert len(jobs) == 1


def test_the_node_that_ran_a_cell_tells_of_itself(grid):
    project, _ = grid
    for name, node, features in (
        ("milan", "mil1", ["milan"]),
        ("h200", "gpu1", ["milan", "h200"]),
    ):
        for runs in project.cells(name).values():
            slurm = runs[0]["slurm"]
            assert slurm["node"] == node
            assert slurm["features"] == features
            assert slurm["exclusive"] is True
            assert slurm["cpus_allocated"] == slurm["cpus_on_node"] == 2
            assert len(slurm["affinity"]) == 2
            assert slurm["cluster"] == "gemmgrid-test"
            assert "shared-node" not in runs[0]["flags"]
    run = project.cells("h200")["numpy-openblas/gemm.float32.32x32x32.t1"][0]
    assert run["slurm"]["gres"] == "gpu:h200:1"
    assert run["slurm"]["partition"] == "gpu"


def test_a_gpu_type_without_a_gpu_is_recorded_as_such(grid):
    project, _ = grid
    cells = project.cells("h200")
    run = cells["torch-gpu/gemm.float32.64x64x64.t1"][0]
    assert run["status"] in ("env-failed", "unsupported")
    assert "CUDA" in run["reason"]
    for runs in cells.values():
        assert runs[0]["promise"]["broken"] == ["a GPU is promised, and none is to be seen"]
        assert "other-machine" in runs[0]["flags"]
    assert not (project.folder / "results/h200/machine.json").exists()


def test_fewer_cpus_than_promised_are_shown_apart(grid):
    project, output = grid
    for runs in project.cells("fat").values():
        assert runs[0]["promise"]["broken"] == ["64 CPUs are promised, 2 may be used"]
        assert "other-machine" in runs[0]["flags"]
    table = project.table()
    apart = table[table["machine"].str.startswith("fat") & (table["status"] == "ok")]
    assert len(apart) == 2
    assert set(apart["machine"]) != {"fat"}
    own = table[(table["machine"] == "fat") & (table["backend"] == "numpy-openblas")]
    assert set(own["status"]) == {"missing"}
    assert "64 CPUs are promised" in project.page()
    assert "incomplete" in output


def test_the_report_compares_the_machines(grid):
    project, _ = grid
    table = project.table()
    ok = table[table["status"] == "ok"]
    assert {"icelake", "milan"} <= set(ok["machine"])
    runs = project.table("runs")
    assert set(runs[runs["machine"] == "milan"]["slurm_node"]) == {"mil1"}


def test_nothing_is_left_to_take_up(grid):
    project, _ = grid
    assert project.kept() == []
    assert not list((project.folder / "results/.plan/rounds").rglob("*.json"))


@pytest.fixture(scope="module")
def measured_once(running_cluster: Cluster, tmp_path_factory) -> SlurmProject:
    """Two cells on one machine, measured. Tests measure one of them again."""
    project = SlurmProject(tmp_path_factory.mktemp("once"))
    project.snakemake()
    return project


def test_settled_cells_are_not_sent_again(measured_once):
    output = measured_once.snakemake()
    assert "Nothing to be done" in output
    assert set(measured_once.counts_of("icelake").values()) == {1}


def test_one_cell_again_on_other_hardware_is_flagged_and_does_not_become_the_machine(measured_once):
    project, name = measured_once, "numpy-openblas/gemm.float32.32x32x32.t1"
    file = project.folder / "results/icelake/machine.json"
    facts = json.loads(file.read_text())
    facts["cpu"]["model"] = "Another CPU"
    file.write_text(json.dumps(facts))
    output = project.snakemake("--cores", "1", "-f", f"results/icelake/{name}.jsonl", code=None)
    assert "1 cell of icelake sent as SLURM job" in output
    assert "1 cell ran on nodes that are not what config/machines.yaml promises" in output
    assert project.counts_of("icelake") == {name: 2, name.replace("32x32x32", "48x48x48"): 1}
    run = project.cells("icelake")[name][-1]
    assert "other-machine" in run["flags"]
    assert run["promise"]["broken"] == [
        "this is other hardware than results/icelake/machine.json describes"
    ]
    assert len(run["slurm"]["affinity"]) == 2  # whatever --cores says
    assert json.loads(file.read_text())["cpu"]["model"] == "Another CPU"
    # It is not what was wanted, so the same command measures it again.
    output = project.snakemake("-n")
    rows = {line.split()[0]: line.split() for line in output.splitlines() if line.strip()}
    assert rows["icelake"][1:3] == ["1", "1"]


def test_rounds_and_single_cells_are_allocations_of_their_own(cluster, project):
    sampling = {**project.tiny()["sampling"], "rounds": 2}
    project.configure({**project.tiny(), "machines": ["icelake"], "sampling": sampling})
    output = project.snakemake("--config", "cells_per_allocation=1")
    assert output.count("1 cell of icelake sent as SLURM job") == 4
    for runs in project.cells("icelake").values():
        (run,) = runs
        assert [one["round"] for one in run["invocations"]] == [1, 2]
        assert len(run["slurm"]["job_id"].split(", ")) == 2


def test_a_bad_number_of_cells_is_refused(cluster, project):
    output = project.snakemake("-n", "--config", "cells_per_allocation=none", code=1)
    assert "cells_per_allocation: found 'none'; allowed: a number of at least 1" in output
