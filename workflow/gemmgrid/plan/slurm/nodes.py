"""The nodes of a cluster, from `scontrol -o show node`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gemmgrid.plan.slurm import fields
from gemmgrid.plan.slurm.gres import Gres, offered

_UNUSABLE = {
    *("DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "ERROR", "UNKNOWN"),
    *("NOT_RESPONDING", "NO_RESPOND", "MAINT", "INVAL", "INVALID_REG"),
}
"""States and flags in which no job starts; sinfo's manual, NODE STATE CODES."""

_STATE_WORD = re.compile(r"[A-Z_]+")
_REASON = re.compile(r" Reason=(.*?)(?: \[[^\]\s]*@[^\]\s]*\]| (?:Comment|Extra)=|\s*$)")


@dataclass(frozen=True)
class Node:
    """One node as SLURM describes it; None and empty where SLURM does not say.

    `cpus` are the CPUs that jobs can have and `memory_mb` their memory: without what the site
    keeps for the system (CoreSpecCount, MemSpecLimit). `features` are all that the node can offer.
    """

    name: str
    partitions: tuple[str, ...]
    state: str
    reason: str | None
    arch: str | None
    cpus: int
    cpus_total: int
    sockets: int | None
    cores_per_socket: int | None
    threads_per_core: int | None
    memory_mb: int
    features: frozenset[str]
    active_features: frozenset[str]
    gres: tuple[Gres, ...]

    @property
    def cores(self) -> int | None:
        """Physical cores; None where SLURM does not say."""
        if self.sockets is None or self.cores_per_socket is None:
            return None
        return self.sockets * self.cores_per_socket

    @property
    def usable(self) -> bool:
        """Whether a job can start there now or when others are done."""
        # Older versions write the flag NOT_RESPONDING as a star, as in IDLE* and DOWN*+CLOUD.
        return "*" not in self.state and _UNUSABLE.isdisjoint(_STATE_WORD.findall(self.state))


def parse_nodes(text: str) -> tuple[Node, ...]:
    """Every node of `scontrol -o show node` but those that do not exist yet (state FUTURE)."""
    nodes = (_node(line) for line in fields.records(text, "NodeName"))
    return tuple(node for node in nodes if node and not node.state.startswith("FUTURE"))


def _node(line: str) -> Node | None:
    name = fields.value(line, "NodeName")
    total = fields.number(line, "CPUTot")
    if name is None or total is None:
        return None
    usable = fields.number(line, "CPUEfctv")
    memory = fields.number(line, "RealMemory") or 0
    active = frozenset(fields.words(line, "ActiveFeatures"))
    reason = _REASON.search(line) if " Reason=" in line else None
    return Node(
        name=name,
        partitions=fields.words(line, "Partitions"),
        state=fields.value(line, "State") or "UNKNOWN",
        reason=reason[1].strip() if reason else None,
        arch=fields.value(line, "Arch"),
        cpus=total if usable is None else usable,
        cpus_total=total,
        sockets=fields.number(line, "Sockets"),
        cores_per_socket=fields.number(line, "CoresPerSocket"),
        threads_per_core=fields.number(line, "ThreadsPerCore"),
        memory_mb=memory - (fields.number(line, "MemSpecLimit") or 0),
        features=active | frozenset(fields.words(line, "AvailableFeatures")),
        active_features=active,
        gres=offered(fields.value(line, "Gres") or ""),
    )
