"""What a machine's entry does though it need not be wrong: unbound CPUs, mixed kinds of node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gemmgrid.plan.config.machines import Machine
from gemmgrid.plan.slurm.access import Said
from gemmgrid.plan.slurm.fit import Offer
from gemmgrid.plan.slurm.hostlist import fold
from gemmgrid.plan.slurm.nodes import Node

SHOWN = 5
"""So many kinds of node are described; the rest is counted."""


@dataclass(frozen=True)
class Kind:
    """Nodes that are alike in all that SLURM says of their hardware."""

    nodes: tuple[Node, ...]

    @property
    def features(self) -> frozenset[str]:
        return self.nodes[0].features

    def __str__(self) -> str:
        one = self.nodes[0]
        parts = [f"{one.cpus} CPUs", *([f"{one.cores} cores"] if one.cores else [])]
        parts += [str(gres) for gres in one.gres]
        parts.append(
            "features " + ",".join(sorted(one.features)) if one.features else "no features"
        )
        return f"{fold((node.name for node in self.nodes), 3)} ({', '.join(parts)})"


def kinds(nodes: Sequence[Node]) -> list[Kind]:
    """The nodes by kind, in the order of their first names."""
    found: dict[object, list[Node]] = {}
    for node in nodes:
        hardware = (node.cpus, node.sockets, node.cores_per_socket, node.threads_per_core)
        found.setdefault((hardware, node.gres, node.features), []).append(node)
    return [Kind(tuple(alike)) for alike in found.values()]


def advice(machine: Machine, there: Sequence[Offer]) -> list[Said]:
    """Notes on the nodes that meet the entry."""
    nodes = [offer.node for offer in there]
    return [*_idle(nodes), *_mixed(nodes), *_bound(machine, there), *_cores(machine, nodes)]


def missing_cpus(there: Sequence[Offer]) -> str:
    """The message where the entry has no `cpus`, with the value that the matching nodes have."""
    by_cpus: dict[int, list[str]] = {}
    for offer in there:
        by_cpus.setdefault(offer.cpus, []).append(offer.node.name)
    head = "missing. The measuring step is bound to so many CPUs, and 'threads: all' means them."
    if not by_cpus:
        return f"{head} Add 'cpus: <CPUs of one node>'."
    if len(by_cpus) == 1:
        ((cpus, names),) = by_cpus.items()
        return f"{head} Matching nodes ({fold(names)}) have {cpus}: add 'cpus: {cpus}'."
    shown = [f"'cpus: {cpus}' ({fold(names, 3)})" for cpus, names in sorted(by_cpus.items())]
    return f"{head} Add {' or '.join(shown[:SHOWN])}, and a constraint that leaves one kind."


def _idle(nodes: Sequence[Node]) -> list[Said]:
    if any(node.usable for node in nodes):
        return []
    shown = [
        f"{node.name} is {node.state}" + (f" ({node.reason})" if node.reason else "")
        for node in nodes[:SHOWN]
    ]
    more = f" … and {len(nodes) - SHOWN} more" if len(nodes) > SHOWN else ""
    return [(None, f"jobs would wait: no matching node runs jobs now: {'; '.join(shown)}{more}")]


def _mixed(nodes: Sequence[Node]) -> list[Said]:
    found = kinds(nodes)
    if len(found) < 2:
        return []
    features = [kind.features for kind in found]
    apart = sorted(frozenset().union(*features) - frozenset.intersection(*features))
    shown = "; ".join(map(str, found[:SHOWN]))
    more = f"; … and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    cure = (
        f"Features that tell them apart: {', '.join(apart[:20])}{' …' if len(apart) > 20 else ''}; "
        f"name them in 'constraint', one machine for each kind"
        if apart
        else "No feature tells them apart: ask the site for one, or name a partition, gres or cpus "
        "that only one kind has"
    )
    return [
        (
            None,
            f"its name would mix {len(found)} kinds of node: {shown}{more}. {cure}.",
        )
    ]


def _bound(machine: Machine, there: Sequence[Offer]) -> list[Said]:
    if not machine.exclusive or machine.cpus is None:
        return []
    least = min(offer.cpus for offer in there)
    if machine.cpus >= least:
        return []
    return [
        (
            "cpus",
            f"found {machine.cpus}: the whole node is taken (exclusive: true), but only "
            f"{machine.cpus} of {least} CPUs would be bound to the step that measures. "
            f"Write 'cpus: {least}' unless that is meant.",
        )
    ]


def _cores(machine: Machine, nodes: Sequence[Node]) -> list[Said]:
    """`cores` is what `threads: physical` means, and a wrong one measures something else."""
    have = {node.cores for node in nodes}
    if len(have) != 1 or None in have or machine.cpus is None:
        return []
    ((cores,), (cpus,)) = (have, {max(node.cpus_total for node in nodes)})
    if machine.cores is None and machine.cpus == cpus and cores != cpus:
        said = f"missing, so 'threads: physical' means {machine.cpus} threads"
    elif machine.cores is not None and machine.cores != cores and machine.cpus >= (cores or 0):
        said = f"found {machine.cores}"
    else:
        return []
    return [
        ("cores", f"{said}, and the matching nodes have {cores} physical cores: 'cores: {cores}'")
    ]
