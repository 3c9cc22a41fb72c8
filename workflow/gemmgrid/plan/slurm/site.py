"""What the cluster has, as its own commands tell it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gemmgrid.plan.slurm.ask import Asking, ask, minutes, number, records, value, words

SHOWN = 3
"""So many nodes are named; the rest is counted."""
_UNUSABLE = {
    *("DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "ERROR", "UNKNOWN"),
    *("NOT_RESPONDING", "NO_RESPOND", "MAINT", "INVAL", "INVALID_REG"),
}
"""States and flags in which no job starts; sinfo's manual, NODE STATE CODES."""
_REASON = re.compile(r" Reason=(.*?)(?: \[[^\]\s]*@[^\]\s]*\]| (?:Comment|Extra)=|\s*$)")


@dataclass(frozen=True)
class Partition:
    """One partition; max_minutes is None where it has no time limit."""

    name: str
    default: bool
    state: str
    max_minutes: int | None


@dataclass(frozen=True)
class Node:
    """One node; None and empty where SLURM does not say.

    `cpus` are the CPUs that jobs can have and `memory_mb` their memory: without what the site
    keeps for the system (CoreSpecCount, MemSpecLimit). `features` and `gres` are SLURM's words.
    """

    name: str
    partitions: tuple[str, ...]
    state: str
    reason: str | None
    arch: str | None
    cpus: int
    cpus_total: int
    cores: int | None
    memory_mb: int
    features: tuple[str, ...]
    gres: str | None

    @property
    def usable(self) -> bool:
        """Whether a job can start there now or when others are done."""
        # Older versions write the flag NOT_RESPONDING as a star, as in IDLE* and DOWN*+CLOUD.
        return "*" not in self.state and _UNUSABLE.isdisjoint(re.findall("[A-Z_]+", self.state))

    @property
    def kind(self) -> tuple[object, ...]:
        """What nodes that are alike have in common: all that SLURM says of their hardware."""
        return (self.cpus, self.cores, self.features, self.gres)


@dataclass(frozen=True)
class Site:
    """A cluster; where it cannot be asked, `problem` says why and all else is empty."""

    partitions: Mapping[str, Partition] = field(default_factory=dict)
    nodes: tuple[Node, ...] = ()
    problem: str | None = None


def read(asking: Asking = ask) -> Site:
    """Ask SLURM what it has, in two questions."""
    # Partitions that are hidden from this user are wanted too: "unknown" would be a wrong answer.
    partitions = asking("scontrol", "--all", "-o", "show", "partition")
    if partitions.text is None:
        return Site(problem=partitions.reason)
    nodes = asking("scontrol", "--all", "-o", "show", "node")
    if nodes.text is None:
        return Site(problem=nodes.reason)
    found = parse_partitions(partitions.text)
    if not found:
        return Site(problem="'scontrol --all -o show partition' named no partition")
    return Site(found, parse_nodes(nodes.text))


def parse_partitions(text: str) -> dict[str, Partition]:
    """Every partition of `scontrol -o show partition` by its name."""
    return {
        name: Partition(
            name,
            value(line, "Default") == "YES",
            value(line, "State") or "UP",
            minutes(value(line, "MaxTime")),
        )
        for line in records(text, "PartitionName")
        if (name := value(line, "PartitionName"))
    }


def parse_nodes(text: str) -> tuple[Node, ...]:
    """Every node of `scontrol -o show node` but those that do not exist yet (state FUTURE)."""
    nodes = (_node(line) for line in records(text, "NodeName"))
    return tuple(node for node in nodes if node and not node.state.startswith("FUTURE"))


def _node(line: str) -> Node | None:
    name, total = value(line, "NodeName"), number(line, "CPUTot")
    if name is None or total is None:
        return None
    usable = number(line, "CPUEfctv")
    sockets, per_socket = number(line, "Sockets"), number(line, "CoresPerSocket")
    reason = _REASON.search(line) if " Reason=" in line else None
    features = {*words(line, "AvailableFeatures"), *words(line, "ActiveFeatures")}
    return Node(
        name=name,
        partitions=words(line, "Partitions"),
        state=value(line, "State") or "UNKNOWN",
        reason=reason[1].strip() if reason else None,
        arch=value(line, "Arch"),
        cpus=total if usable is None else usable,
        cpus_total=total,
        cores=sockets * per_socket if sockets and per_socket else None,
        memory_mb=(number(line, "RealMemory") or 0) - (number(line, "MemSpecLimit") or 0),
        features=tuple(sorted(features)),
        # Which sockets a device hangs on is no difference that a job can ask for.
        gres=re.sub(r"\([^)]*\)", "", value(line, "Gres") or "") or None,
    )


def names(nodes: Iterable[Node]) -> str:
    """`ice1, ice2, ice3 … and 9 more`."""
    found = [node.name for node in nodes]
    rest = len(found) - SHOWN
    return ", ".join(found[:SHOWN]) + (f" … and {rest} more" if rest > 0 else "")
