"""Which nodes have what a machine's entry asks for, and what to write where none has it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from gemmgrid.plan.config.machines import Machine
from gemmgrid.plan.slurm import constraint, gres
from gemmgrid.plan.slurm.access import named
from gemmgrid.plan.slurm.nodes import Node
from gemmgrid.plan.slurm.partitions import Partition
from gemmgrid.plan.slurm.site import Site


@dataclass(frozen=True)
class Offer:
    """A node as the named partitions let a job have it."""

    node: Node
    cpus: int
    memory_mb: int


@dataclass(frozen=True)
class Demand:
    """One key of a machine's entry that a node has to meet."""

    key: str
    value: str | int
    meets: Callable[[Offer], bool]

    def __str__(self) -> str:
        return f"{self.key} {self.value!r}"


def offers(site: Site, partitions: Iterable[Partition]) -> list[Offer]:
    """Every node of these partitions, with the partitions' limits per node applied."""
    by_name = {partition.name: partition for partition in partitions}
    found = []
    for node in site.nodes:
        homes = [by_name[name] for name in node.partitions if name in by_name]
        if homes:
            cpus = max(_least(node.cpus, home.max_cpus_per_node) for home in homes)
            memory = max(_least(node.memory_mb, home.max_memory_mb) for home in homes)
            found.append(Offer(node, cpus, memory))
    return found


def demands(machine: Machine) -> list[Demand]:
    """What the entry asks of a node. ValueError where `constraint` or `gres` cannot be read."""
    found = []
    if machine.constraint is not None:
        found.append(_constraint(machine.constraint))
    if machine.gres is not None:
        found.append(_gres(machine.gres))
    arch = machine.platform.partition("-")[2]
    found.append(
        Demand("platform", machine.platform, lambda offer: offer.node.arch in (None, arch))
    )
    if machine.cpus is not None:
        cpus = machine.cpus
        found.append(Demand("cpus", cpus, lambda offer: offer.cpus >= cpus))
    if machine.memory_mb is not None:
        memory = machine.memory_mb
        found.append(Demand("memory_mb", memory, lambda offer: offer.memory_mb >= memory))
    return found


def meeting(wanted: Iterable[Demand], there: Iterable[Offer]) -> list[Offer]:
    """The offers that meet every demand."""
    wanted = list(wanted)
    return [offer for offer in there if all(one.meets(offer) for one in wanted)]


def matching(machine: Machine, site: Site) -> tuple[Node, ...]:
    """The nodes on which SLURM may start the machine's jobs; empty where the entry is wrong."""
    try:
        wanted = demands(machine)
    except ValueError:
        return ()
    partitions, wrong = named(machine, site)
    if wrong:
        return ()
    return tuple(offer.node for offer in meeting(wanted, offers(site, partitions)))


def places(nodes: Sequence[Node]) -> dict[str, list[str]]:
    """The names of nodes by partition, for saying where something is."""
    found: dict[str, list[str]] = {}
    for node in nodes:
        for name in node.partitions or ("no partition",):
            found.setdefault(name, []).append(node.name)
    return found


def _constraint(text: str) -> Demand:
    accepts = constraint.parse(text).accepts
    return Demand("constraint", text, lambda offer: accepts(offer.node.features))


def _gres(text: str) -> Demand:
    wanted = gres.requested(text)
    return Demand("gres", text, lambda offer: gres.enough(wanted, offer.node.gres))


def _least(have: int, limit: int | None) -> int:
    return have if limit is None else min(have, limit)
