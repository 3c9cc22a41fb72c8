"""The check before sending asks a real SLURM: its decisions are the check's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gemmgrid.plan.config.machines import Machine, load_machines
from gemmgrid.plan.slurm.checks import Findings, check
from gemmgrid.plan.slurm.forecast import Allocation
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
        constraint="&".join(node.features) or None,
        gres=node.gres,
        cpus=node.cpus,
        memory_mb=node.memory_mb,
    )


def found(machine: Machine, site: Site) -> Findings:
    one = Allocation(machine.name, 1, machine.runtime_min or 2, machine.cpus, machine.memory_mb)
    return check({machine.name: machine}, [one], site, 2)


def test_every_node_can_be_asked_for(plain, site):
    for node in site.nodes:
        findings = found(exact(plain, node), site)
        assert findings.problems == []
        assert findings.nodes and findings.nodes["x"] >= 1


def test_what_slurm_refuses_is_told_by_its_key(plain, site):
    gpu = exact(plain, next(node for node in site.nodes if node.gres))
    cpu_node = next(node for node in site.nodes if node.name == "ice1")
    cpu = exact(plain, cpu_node)
    wrong = {
        "partition": replace(cpu, partition="nowhere"),
        "constraint": replace(cpu, constraint="no-such-feature"),
        "constraint of another partition": replace(cpu, constraint=gpu.constraint),
        "constraint that is none": replace(cpu, constraint=f"{cpu.constraint}&&x"),
        "constraint in brackets": replace(cpu, constraint="[milan&h200]"),
        "cpus": replace(cpu, cpus=max(node.cpus for node in site.nodes) + 1),
        "memory_mb": replace(cpu, memory_mb=cpu_node.memory_mb * 1000),
        "gres count": replace(gpu, gres="gpu:h200:99"),
        "gres type": replace(gpu, gres="gpu:no-such-type:1"),
        "gres of another partition": replace(cpu, gres=gpu.gres),
        "gres that is none": replace(gpu, gres="gpu:h200:1,gpu:1"),
        "runtime_min": replace(cpu, runtime_min=61),
        "account": replace(cpu, account="nobody"),
    }
    for what, machine in wrong.items():
        (problem,) = found(machine, site).problems
        assert f", x.{what.split()[0]}:" in problem, what


@pytest.mark.parametrize(
    ("constraint", "names"),
    [
        ("milan|second&avx512", ["ice2"]),  # from left to right
        ("milan|(second&avx512)", ["ice2", "mil1"]),
        ("[icelake|milan]&avx512", ["ice1", "ice2"]),
        ("(icelake|milan)", ["ice1", "ice2", "mil1"]),
    ],
)
def test_a_constraint_matches_what_slurm_would_take(plain, site, constraint, names):
    machine = replace(plain, partition="cpu", constraint=constraint)
    assert found(machine, site).nodes == {"x": len(names)}
