"""Everything that goes wrong on a cluster ends in a recorded status; the same command goes on."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.measure.interpreters import interpreter
from tests.slurm.cluster import Cluster, run
from tests.slurm.project import SlurmProject, wait_until
from tests.workflow.project import environment

SHAPES = [256, 272, 288, 304, 320, 336]
MACHINES = ["short", "small", "taken", "failing", "stopped"]


@pytest.fixture(scope="module")
def bad_day(running_cluster: Cluster, tmp_path_factory) -> tuple[SlurmProject, str]:
    """One submission to machines on which everything goes wrong, and what it printed."""
    project = SlurmProject(tmp_path_factory.mktemp("bad"))
    project.add_backend(
        "sleeper",
        adapter="numpy",
        device="cpu",
        environment="sleeper",
        platforms=["linux-x86_64"],
        dtypes=["float32"],
        python=project.script("sleeper", "sleep 300"),
    )
    numpy = {"cpus": 2, "backends": ["numpy-openblas"]}
    project.send_to(
        short={
            **{"partition": "cpu", "constraint": "icelake&second", "cpus": 2},
            "backends": ["sleeper"],
        },
        small={"partition": "cpu", "constraint": "icelake", **numpy, "memory_mb": 60},
        taken={"partition": "spare", **numpy},
        failing={"partition": "gpu", **numpy},
        stopped={"partition": "fat", **numpy},
    )
    study = project.tiny(SHAPES, 10.0)
    study["grid"][0]["backends"] = ["numpy-openblas", "sleeper"]
    project.configure({**study, "machines": MACHINES, "budget": {"cell_s": 240}})
    process = project.start()
    try:
        # SLURM counts limits in minutes.
        run("scontrol", "update", f"JobId={running_cluster.wait_for_job('ice2')}", "TimeLimit=1")
        stopped = running_cluster.wait_for_job("fat1")
        running_cluster.wait_for_job("mil1")
        running_cluster.wait_for_job("gpu1")
        wait_until(lambda: len(project.kept()) >= 3, what="cells that are done")
        run("scancel", stopped)
        run("sbatch", "-p", "urgent", "--exclusive", "-o", "/dev/null", "--wrap", "true")
        take_down(running_cluster, "gpu1")
        output, _ = process.communicate(timeout=400)
    finally:
        process.kill()
    running_cluster.revive()
    return project, output


def take_down(cluster: Cluster, node: str) -> None:
    """A node fails under its job, and comes back once SLURM has put the job into the queue."""
    job = cluster.wait_for_job(node)
    cluster.crash_node(node)
    run("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test")
    wait_until(lambda: waits(job), what="the requeue")
    cluster.start_node(node)
    wait_until(lambda: node in cluster.idle(), what="the node")
    time.sleep(5)  # SLURM still has a word to say to the job's first life there
    hurry(job)


def waits(job: str) -> bool:
    return "BeginTime" in run("squeue", "-h", "-j", job, "-o", "%r")


def hurry(job: str) -> None:
    """SLURM lets a requeued job wait for two minutes; this one starts when it can."""
    wait_until(lambda: waits(job), what="the requeue")
    run("scontrol", "update", f"JobId={job}", "StartTime=now")


def reasons(project: SlurmProject, machine: str) -> set[str]:
    runs = [runs[-1] for runs in project.cells(machine).values()]
    return {one["reason"].split(":")[0] for one in runs if one["status"] == "lost"}


@pytest.mark.parametrize(
    ("machine", "state"),
    [
        ("short", "TIMEOUT"),
        ("small", "OUT_OF_MEMORY"),
        ("taken", "PREEMPTED"),
        ("stopped", "CANCELLED"),
    ],
)
def test_lost_cells_carry_slurms_own_reason(bad_day, machine, state):
    project, output = bad_day
    assert reasons(project, machine) == {state}, output
    assert f"gemmgrid: {machine}: {state}: SLURM job " in output
    assert len(project.cells(machine)) == len(SHAPES)
    lost = [runs[-1] for runs in project.cells(machine).values() if runs[-1]["status"] == "lost"]
    for one in lost:
        assert one["slurm"]["job_id"].isdigit()
        assert one["invocations"] == []


def test_an_allocation_whose_node_failed_goes_on_when_there_is_one(bad_day):
    project, output = bad_day
    runs = list(project.cells("failing").values())
    assert [[one["status"] for one in each] for each in runs] == [["ok"]] * len(SHAPES), output
    assert max(one[0]["slurm"]["restarts"] for one in runs) == 1


def test_what_was_measured_before_is_kept(bad_day):
    project, output = bad_day
    done = [name for name, found in project.statuses().items() if found == ["ok"]]
    assert len(done) >= 3, output
    assert project.kept() == []


def test_the_report_shows_what_was_lost(bad_day):
    project, output = bad_day
    assert "PREEMPTED: SLURM job" in project.page()
    assert "lost; the same command sends them again" in output
    assert "snakemake --profile profiles/slurm" in output


def test_the_same_command_sends_the_lost_ones_again(bad_day):
    project, _ = bad_day
    lost = [name for name, found in project.statuses().items() if found[-1] == "lost"]
    machines = project.folder / "config/machines.yaml"
    machines.write_text(machines.read_text().replace("memory_mb: 60", "memory_mb: 2000"))
    project.script("sleeper", f'exec {interpreter("numpy-openblas")} "$@"')
    study = project.tiny(SHAPES)
    study["grid"][0]["backends"] = ["numpy-openblas", "sleeper"]
    project.configure({**study, "machines": MACHINES, "budget": {"cell_s": 240}})
    output = project.snakemake("--rerun-triggers", "mtime")
    assert f"{len(lost)} of {5 * len(SHAPES)} cells to measure" in output
    found = project.statuses()
    assert all(found[name] == ["lost", "ok"] for name in lost)
    assert sum(len(one) for one in found.values()) == 5 * len(SHAPES) + len(lost)


def test_a_requeued_allocation_does_not_measure_twice(cluster, project):
    project.send_to(again={"partition": "again", "cpus": 2})
    project.configure({**project.tiny([256, 272, 288], 1.5), "machines": ["again"]})
    process = project.start()
    try:
        job = cluster.wait_for_job("mil1")
        wait_until(lambda: len(project.kept()) >= 1, what="a cell that is done")
        first = {path.name: path.read_text() for path in project.kept()}
        run("sbatch", "-p", "urgent", "--exclusive", "-o", "/dev/null", "--wrap", "true")
        hurry(job)
        output, _ = process.communicate(timeout=400)
    finally:
        process.kill()
    assert process.returncode == 0, output
    runs = project.cells("again")
    assert [len(one) for one in runs.values()] == [1, 1, 1]
    restarted = [one[0]["slurm"]["restarts"] for one in runs.values()]
    assert sorted(restarted)[0] == 0 and sorted(restarted)[-1] == 1
    for name, text in first.items():
        cell = name.removesuffix(".json").rsplit(".", 2)[0]  # without round and job
        assert runs[f"numpy-openblas/{cell}"][0]["id"] in text


def test_a_controller_and_accounting_that_are_down_for_a_while(cluster, project):
    process = project.start()
    try:
        wait_until(lambda: bool(cluster.jobs()), what="a job")
        cluster.end("slurmdbd")
        cluster.end("slurmctld")
        time.sleep(12)  # the plugin asks every 11 s at first
        cluster.start_accounting()
        cluster.start_controller()
        output, _ = process.communicate(timeout=400)
    finally:
        process.kill()
    assert process.returncode == 0, output
    assert list(project.statuses().values()) == [["ok"], ["ok"]]


def test_without_sacct_the_queue_tells(cluster, project, tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in Path("/usr/bin").iterdir():
        if tool.name not in ("sacct", "sacctmgr"):
            (tools / tool.name).symlink_to(tool)
    done = subprocess.run(
        [*project.command, "--configfile", str(project.study)],
        cwd=project.folder,
        env=environment(PATH=str(tools)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=400,
    )
    assert done.returncode == 0, done.stdout
    assert list(project.statuses().values()) == [["ok"], ["ok"]]


def test_a_job_that_slurm_does_not_take_ends_in_a_word(cluster, project, tmp_path):
    """sbatch is a test double here: it refuses what the trial before had found to be right."""
    refusing = tmp_path / "bin/sbatch"
    refusing.parent.mkdir()
    refusing.write_text(
        '#!/bin/sh\ncase " $* " in *" --test-only "*) exec /usr/bin/sbatch "$@";; esac\n'
        "echo 'sbatch: error: Batch job submission failed: Job violates policy' >&2; exit 1\n"
    )
    refusing.chmod(0o755)
    path = f"{refusing.parent}:{os.environ['PATH']}"
    output = project.snakemake(code=1, PATH=path)
    assert "gemmgrid: icelake: REFUSED: SLURM did not take the job" in output
    assert "Job violates policy" in output
    assert list(project.statuses().values()) == [["lost"], ["lost"]]
    assert reasons(project, "icelake") == {"REFUSED"}


def test_a_lost_round_makes_its_cells_lost(cluster, project):
    """The first round's allocation is cancelled, the second's ends well."""
    sampling = {**project.tiny(sample_s=1.0)["sampling"], "rounds": 2}
    project.send_to(milan={"partition": "cpu", "constraint": "milan", "cpus": 2})
    project.configure({**project.tiny(), "machines": ["milan"], "sampling": sampling})
    process = project.start()
    try:
        first = cluster.wait_for_job("mil1")
        run("scancel", first)
        output, _ = process.communicate(timeout=400)
    finally:
        process.kill()
    assert process.returncode == 1, output
    assert list(project.statuses().values()) == [["lost"], ["lost"]], output
    assert reasons(project, "milan") == {"CANCELLED"}
    project.snakemake()
    assert list(project.statuses().values()) == [["lost", "ok"], ["lost", "ok"]]
    for runs in project.cells("milan").values():
        assert [one["round"] for one in runs[-1]["invocations"]] == [1, 2]
