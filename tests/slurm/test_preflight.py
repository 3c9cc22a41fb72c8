"""The check before submission on a real SLURM: whatever it says, sbatch must say too."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from gemmgrid.plan.slurm.preflight import check, matching

from gemmgrid.plan.config.machines import Machine, load_machines
from gemmgrid.plan.slurm.site import Node, Site, read

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture
def site() -> Site:
    found = read()
    assert found.problem is None
    assert found.nodes
    return found


@pytest.fixture
def plain(tmp_path: Path) -> Machine:
    """An entry that asks for nothing but one CPU."""
    (tmp_path / "config").mkdir()
    (tmp_path / "config/machines.yaml").write_text("x: {cpus: 1}")
    return load_machines(tmp_path)["x"]


def exact(plain: Machine, node: Node) -> Machine:
    """The entry that asks for all that a node has."""
    return replace(
        plain,
        partition=node.partitions[0],
        constraint="&".join(sorted(node.features)) or None,
        gres=",".join(map(str, node.gres)) or None,
        cpus=node.cpus,
        memory_mb=node.memory_mb,
        runtime_min=1,
    )


def taken(machine: Machine, *more: str) -> tuple[bool, str]:
    """Whether sbatch takes the entry, and what it says; no job of it runs.

    Asked twice: --test-only overlooks what is wrong with some constraints, and a job for later,
    which is cancelled at once, overlooks too many CPUs.
    """
    asked = {
        "partition": machine.partition,
        "constraint": machine.constraint,
        "gres": machine.gres,
        "cpus-per-task": machine.cpus,
        "mem": machine.memory_mb,
        "time": machine.runtime_min,
    }
    options = [f"--{name}={value}" for name, value in asked.items() if value is not None]
    fixed = ["--parsable", "--ntasks=1", "--nodes=1", "--output=/dev/null", "--wrap=true"]
    command = ["sbatch", *fixed, *options, *more]
    tested = subprocess.run(
        [*command, "--test-only"], capture_output=True, text=True, timeout=60, check=False
    )
    if tested.returncode != 0:
        return False, tested.stderr
    later = subprocess.run(
        [*command, "--begin=now+1hour"], capture_output=True, text=True, timeout=60, check=False
    )
    if later.returncode == 0:
        subprocess.run(["scancel", later.stdout.strip().split(";")[0]], timeout=60, check=True)
    return later.returncode == 0, later.stderr


def problems(machine: Machine, site: Site) -> list[str]:
    return check({machine.name: machine}, site).problems


def test_every_node_can_be_asked_for(plain, site):
    for node in site.nodes:
        machine = exact(plain, node)
        assert problems(machine, site) == []
        assert node in matching(machine, site)
        accepted, text = taken(machine)
        assert accepted, text


def somewhere(nodes: Iterable[Node], fits: Callable[[Node], bool]) -> Node:
    return next(node for node in nodes if fits(node))


def test_what_is_refused_here_is_refused_by_slurm(plain, site):
    gpu = exact(plain, somewhere(site.nodes, lambda node: bool(node.gres)))
    cpu_node = somewhere(site.nodes, lambda node: not node.gres)
    cpu = exact(plain, cpu_node)
    name, kind, _ = (gpu.gres or "").split(":")
    wrong = {
        "partition": replace(cpu, partition="nowhere"),
        "constraint": replace(cpu, constraint="no-such-feature"),
        "constraint of another partition": replace(cpu, constraint=gpu.constraint),
        "constraint that is none": replace(cpu, constraint=f"{cpu.constraint}&&x"),
        "constraint in brackets": replace(cpu, constraint="[milan&h200]"),
        "cpus": replace(cpu, cpus=max(node.cpus for node in site.nodes) + 1),
        "memory_mb": replace(cpu, memory_mb=cpu_node.memory_mb * 1000),
        "gres count": replace(gpu, gres=f"{name}:{kind}:99"),
        "gres type": replace(gpu, gres=f"{name}:no-such-type:1"),
        "gres of another partition": replace(cpu, gres=gpu.gres),
        "gres that is none": replace(gpu, gres=f"{name}:{kind}:1,{name}:1"),
    }
    for what, machine in wrong.items():
        said = problems(machine, site)
        assert said, what
        assert f", x.{what.split()[0]}:" in said[0]
        accepted, _ = taken(machine)
        assert not accepted, what


def test_constraints_mean_what_slurm_means(plain, site):
    """On each node by its name, so that SLURM decides for this node alone."""
    features = sorted({feature for node in site.nodes for feature in node.features})[:3]
    assert len(features) == 3
    first, second, third = features
    expressions = [
        f"{first}|{second}&{third}",
        f"{first}|({second}&{third})",
        f"[{first}|{second}]&{third}",
        f"({first}|{second}),{third}",
    ]
    for node in site.nodes:
        for expression in expressions:
            machine = replace(exact(plain, node), constraint=expression, gres=None)
            accepted, text = taken(machine, f"--nodelist={node.name}")
            assert (node in matching(machine, site)) == accepted, (node.name, expression, text)


def test_longer_than_the_partition_allows(plain, site):
    limited = next(one for one in site.partitions.values() if one.max_minutes)
    node = somewhere(site.nodes, lambda node: limited.name in node.partitions)
    longest = limited.max_minutes or 0
    machine = replace(exact(plain, node), partition=limited.name)
    assert problems(replace(machine, runtime_min=longest), site) == []
    said = problems(replace(machine, runtime_min=longest + 1), site)
    assert len(said) == 1
    assert f"Write 'runtime_min: {longest}' or less." in said[0]
