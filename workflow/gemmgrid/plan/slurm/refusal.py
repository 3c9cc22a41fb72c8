"""Why no node takes a machine's jobs: which key asks too much, and what would do instead."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from gemmgrid.plan.config.errors import choose, found, nearest
from gemmgrid.plan.config.machines import Machine
from gemmgrid.plan.slurm import constraint, gres
from gemmgrid.plan.slurm.access import Said
from gemmgrid.plan.slurm.fit import Demand, Offer, meeting, places
from gemmgrid.plan.slurm.hostlist import fold
from gemmgrid.plan.slurm.nodes import Node
from gemmgrid.plan.slurm.site import Site


def malformed(machine: Machine, site: Site) -> list[Said]:
    """What SLURM would refuse on any cluster like this one, whatever the partition."""
    return [*_constraint(machine, site), *_gres(machine)]


def _constraint(machine: Machine, site: Site) -> list[Said]:
    text = machine.constraint
    if text is None:
        return []
    try:
        parsed = constraint.parse(text)
    except constraint.ConstraintError as error:
        return [("constraint", f"found {found(text)}, which SLURM does not take: {error}.")]
    known = sorted(set().union(*(node.features for node in site.nodes)))
    said: list[Said] = [
        (
            "constraint",
            f"found {found(text)}, and no node of this cluster has the feature {name!r}. "
            + (choose(name, known) if known else "No node has any feature: leave the key out."),
        )
        for name in parsed.features
        if name not in known
    ]
    if parsed.nodes > 1:
        said.append(
            (
                "constraint",
                f"found {found(text)}, which gives a job {parsed.nodes} nodes, and a machine is "
                f"measured on one. {_without_counts(text)}",
            )
        )
    return said


def _without_counts(text: str) -> str:
    plain = re.sub(r"\*\d+", "", text)
    try:
        constraint.parse(plain)
    except constraint.ConstraintError:  # [a*1&b*1] has no meaning for one node
        return "Leave the counts out, and make a machine of each feature."
    return f"Write 'constraint: {plain}'."


def _gres(machine: Machine) -> list[Said]:
    try:
        gres.requested(machine.gres or "")
    except ValueError as error:
        return [("gres", f"found {found(machine.gres)}: {error}.")]
    return []


def unmet(
    wanted: Sequence[Demand], there: Sequence[Offer], where: str, site: Site
) -> list[tuple[str | None, str]]:
    """Messages where no offer meets all demands; `where` names the partitions.

    Every demand that no node meets is told by itself; if there is none such, that they do not meet
    on one node.
    """
    alone = [one for one in wanted if not meeting([one], there)]
    if alone:
        rest = [one for one in wanted if one not in alone]
        return [(one.key, _nobody(one, there, meeting(rest, there), where, site)) for one in alone]
    parts = [f"{one} ({_names(meeting([one], there))})" for one in wanted if one.key != "platform"]
    cures = [cure for one in wanted if (cure := _without(one, wanted, there))]
    text = f"no single node of {where} has all of: {'; '.join(parts)}."
    return [(None, f"{text} {' '.join(cures)}".rstrip())]


def _nobody(
    demand: Demand, there: Sequence[Offer], close: Sequence[Offer], where: str, site: Site
) -> str:
    """Why no node meets one demand; `close` are those that meet all others, perhaps none."""
    head = f"found {found(demand.value)}, and no node of {where} has"
    everywhere = [Offer(node, node.cpus, node.memory_mb) for node in site.nodes]
    holding = [offer.node for offer in everywhere if demand.meets(offer)]
    other = f" Nodes that have it: {_places(holding)}." if holding else ""
    if demand.key == "constraint":
        features = sorted(set().union(*(offer.node.features for offer in there)))
        return f"{head} what this asks for. Features there: {_some(features)}.{other}"
    if demand.key == "gres":
        offered = sorted({str(one) for offer in there for one in offer.node.gres})
        guess = nearest(demand.value, offered)
        mean = f" Did you mean {guess!r}?" if guess else ""
        return f"{head} it. Gres there, for each node: {_some(offered)}.{mean}{other}"
    if demand.key == "platform":
        arches = sorted({f"linux-{offer.node.arch}" for offer in there})
        return f"{head} it. Write 'platform: {' or '.join(arches)}'."
    size, unit = (_cpus, "CPUs") if demand.key == "cpus" else (_memory, "MB of memory")
    largest = max(close or there, key=size)
    match = " that matches otherwise" if close else ""
    return (
        f"{head} as many {unit} for jobs. The largest{match} is {largest.node.name} with "
        f"{size(largest)}: write '{demand.key}: {size(largest)}' or less.{other}"
    )


def _without(demand: Demand, wanted: Sequence[Demand], there: Sequence[Offer]) -> str | None:
    """Which nodes would do if this one demand were less."""
    others = meeting([one for one in wanted if one is not demand], there)
    if not others:
        return None
    if demand.key in ("cpus", "memory_mb"):
        size = _cpus if demand.key == "cpus" else _memory
        largest = max(others, key=size)
        return f"With '{demand.key}: {size(largest)}' it would be {_names([largest])}."
    return f"Without {demand.key} it would be {_names(others)}."


def _cpus(offer: Offer) -> int:
    return offer.cpus


def _memory(offer: Offer) -> int:
    return offer.memory_mb


def _names(there: Iterable[Offer]) -> str:
    return fold(offer.node.name for offer in there)


def _some(words: Sequence[str]) -> str:
    return ", ".join(words[:24]) + (" …" if len(words) > 24 else "") if words else "none"


def _places(nodes: Sequence[Node]) -> str:
    """`gpu1 in partition gpu, fat1 in partition fat`."""
    found = places(nodes)
    shown = [f"{fold(names, 3)} in partition {name}" for name, names in sorted(found.items())]
    return ", ".join(shown[:6]) + (f" … and {len(shown) - 6} more" if len(shown) > 6 else "")
