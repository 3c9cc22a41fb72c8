"""What an entry does on the nodes that match it, though SLURM takes it: wrong platform, mixed kinds
of node, fewer CPUs than there are, other cores than it says."""

from __future__ import annotations

from collections.abc import Sequence

from gemmgrid.plan.config.errors import found
from gemmgrid.plan.config.machines import Machine
from gemmgrid.plan.slurm.site import Node, names

Said = tuple[str | None, str]
"""The key of the machine's entry that a message is about (None: the entry), and the message."""
SHOWN = 5
"""So many kinds of node are described; the rest is counted."""


def advice(machine: Machine, there: Sequence[Node]) -> tuple[list[Said], list[Said]]:
    """Problems and notes; `there` are the nodes that match."""
    if not there or machine.cpus is None:
        return [], []
    return _platform(machine, there), [
        *_kinds(there),
        *_taken(machine, there),
        *_cores(machine, there),
    ]


def _platform(machine: Machine, there: Sequence[Node]) -> list[Said]:
    arches = {node.arch for node in there}
    if None in arches or machine.platform.partition("-")[2] in arches:
        return []
    listed = " or ".join(sorted(f"linux-{arch}" for arch in arches))
    text = f"found {found(machine.platform)}, and the nodes that match are others."
    return [("platform", f"{text} Write 'platform: {listed}'.")]


def _kinds(there: Sequence[Node]) -> list[Said]:
    kinds: dict[object, list[Node]] = {}
    for node in there:
        kinds.setdefault(node.kind, []).append(node)
    if len(kinds) < 2:
        return []
    features = [frozenset(alike[0].features) for alike in kinds.values()]
    apart = sorted(frozenset().union(*features) - frozenset.intersection(*features))
    shown = "; ".join(map(_described, list(kinds.values())[:SHOWN]))
    more = f"; … and {len(kinds) - SHOWN} more" if len(kinds) > SHOWN else ""
    cure = (
        f"Features that tell them apart: {', '.join(apart[:20])}{' …' if len(apart) > 20 else ''}; "
        "name them in 'constraint', one machine for each kind"
        if apart
        else "No feature tells them apart: ask the site for one, or name a partition, gres or cpus "
        "that only one kind has"
    )
    return [(None, f"its name would mix {len(kinds)} kinds of node: {shown}{more}. {cure}.")]


def _described(nodes: Sequence[Node]) -> str:
    one = nodes[0]
    parts = [f"{one.cpus} CPUs", *([f"{one.cores} cores"] if one.cores else [])]
    parts += [one.gres] if one.gres else []
    parts.append("features " + ",".join(one.features) if one.features else "no features")
    return f"{names(nodes)} ({', '.join(parts)})"


def _taken(machine: Machine, there: Sequence[Node]) -> list[Said]:
    least = min(node.cpus for node in there)
    if not machine.exclusive or machine.cpus is None or machine.cpus >= least:
        return []
    text = (
        f"found {machine.cpus}: the whole node is taken (exclusive: true), but 'threads: all' "
        f"means {machine.cpus} of its {least} CPUs. Write 'cpus: {least}' unless that is meant."
    )
    return [("cpus", text)]


def _cores(machine: Machine, there: Sequence[Node]) -> list[Said]:
    """`cores` is what `threads: physical` means, and a wrong one measures something else."""
    have = {node.cores for node in there}
    if len(have) != 1 or None in have or machine.cpus is None:
        return []
    ((cores,), cpus) = (have, max(node.cpus_total for node in there))
    if machine.cores is None and machine.cpus == cpus and cores != cpus:
        said = f"missing, so 'threads: physical' means {machine.cpus} threads"
    elif machine.cores is not None and machine.cores != cores and machine.cpus >= (cores or 0):
        said = f"found {machine.cores}"
    else:
        return []
    cure = f"and the matching nodes have {cores} physical cores: 'cores: {cores}'"
    return [("cores", f"{said}, {cure}")]
