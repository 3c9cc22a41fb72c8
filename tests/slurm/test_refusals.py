"""What cannot work is said before anything is sent, with the cure."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.slurm.cluster import run
from tests.slurm.project import MACHINES

ICELAKE = MACHINES["icelake"]


@pytest.mark.parametrize(
    ("entry", "key", "words"),
    [
        ({"partition": "cpus", "cpus": 2}, "partition", "cpu"),
        ({**ICELAKE, "constraint": "icelaek"}, "constraint", "icelake"),
        ({**ICELAKE, "cpus": 128}, "cpus", "2"),
        ({**ICELAKE, "gres": "gpu:a100:1"}, "gres", "gpu"),
        ({**ICELAKE, "memory_mb": 900000}, "memory_mb", "5000"),
        ({"partition": "closed", "cpus": 2}, "partition", "DOWN"),
        ({"partition": "cpu", "constraint": "milan"}, "cpus", "cpus: 2"),
    ],
)
def test_an_entry_that_cannot_be_met(cluster, project, entry, key, words):
    project.send_to(wanted=entry)
    output = project.snakemake(code=1)
    message = next(line for line in output.splitlines() if "config/machines.yaml, " in line)
    assert f"wanted.{key}: " in message
    assert words in message
    assert project.machines() == []
    assert run("squeue", "-h") == ""


def test_a_limit_that_the_user_did_not_write_names_its_cure(cluster, project):
    project.configure({**project.tiny(), "machines": ["icelake"], "budget": {"cell_s": 2400}})
    output = project.snakemake("-n", code=1)
    (message,) = [line for line in output.splitlines() if "icelake.runtime_min" in line]
    assert "82" in message and "60" in message
    assert "41 minutes each at most: with runtime_min in the entry" in message
    project.send_to(icelake={**ICELAKE, "runtime_min": 60})
    project.configure({**project.tiny(), "machines": ["icelake"], "budget": {"cell_s": 2400}})
    output = project.snakemake("-n")
    assert "icelake            2      2     1        0:41" in output


def test_machines_without_the_profile(cluster, project):
    output = project.local(code=1)
    assert "machines: icelake are reached through SLURM: add --profile profiles/slurm" in output
    assert project.machines() == []


def test_shared_nodes_without_the_profile(cluster, project):
    project.send_to(icelake={**ICELAKE, "exclusive": False})
    output = project.local("--executor", "gemmgrid-slurm", "--jobs", "2", code=1)
    assert "add --profile profiles/slurm, which limits the resource shared to 1" in output
    assert project.machines() == []
    assert run("squeue", "-h") == ""


def test_the_profile_without_machines(cluster, project):
    project.configure(project.tiny())
    assert "nothing would be sent" in project.snakemake("-n")
    output = project.snakemake(code=1)
    assert "this study says no `machines:`" in output
    assert project.machines() == []


def test_the_forecast(cluster, project):
    project.send_to(icelake=ICELAKE, milan={**MACHINES["milan"], "cells_per_allocation": 1})
    output = project.snakemake("-n")
    rows = {line.split()[0]: line.split() for line in output.splitlines() if line.strip()}
    assert rows["icelake"][1:6] == ["1", "2", "2", "0:04", "2"]
    assert rows["milan"][1:6] == ["2", "2", "1", "0:02", "2"]
    assert rows["total"][1:3] == ["3", "4"]
    assert project.machines() == []


def test_an_account_that_the_user_does_not_have(cluster, project):
    project.send_to(icelake={**ICELAKE, "account": "nobody"})
    output = project.snakemake(code=1)
    assert "icelake.account: found 'nobody', and SLURM refuses it: Invalid account" in output
    assert project.machines() == []


def test_a_host_without_sbatch(cluster, project, tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in Path("/usr/bin").iterdir():
        if tool.name not in ("sbatch", "sinfo"):
            (tools / tool.name).symlink_to(tool)
    output = project.snakemake(code=1, PATH=str(tools))
    assert "there is no `sbatch` on the PATH" in output
    assert project.machines() == []
