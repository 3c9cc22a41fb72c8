"""What the cluster has, as its own commands tell it."""

from __future__ import annotations

import grp
import os
import pwd
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from gemmgrid.plan.slurm.accounts import FORMAT, Association, enforced, parse_associations
from gemmgrid.plan.slurm.ask import LIMIT_S, ask
from gemmgrid.plan.slurm.nodes import Node, parse_nodes
from gemmgrid.plan.slurm.partitions import Partition, parse_partitions

__all__ = ["Node", "Partition", "Site", "parse_nodes", "parse_partitions", "read", "setting"]


@dataclass(frozen=True)
class Site:
    """A cluster; where it cannot be asked, `problem` says why and all else is empty.

    `associations` is empty, too, where accounts are not enforced or sacctmgr does not answer:
    then nothing can be said about them. `groups` are this user's, None where all are open (root).
    """

    partitions: Mapping[str, Partition] = field(default_factory=dict)
    nodes: tuple[Node, ...] = ()
    associations: tuple[Association, ...] = ()
    qos_enforced: bool = False
    groups: frozenset[str] | None = None
    problem: str | None = None

    @property
    def default_partition(self) -> Partition | None:
        """Where jobs go that name no partition."""
        return next((one for one in self.partitions.values() if one.default), None)


def read(limit_s: float = LIMIT_S) -> Site:
    """Ask SLURM what it has; each of at most four questions may take `limit_s` seconds."""
    # Partitions that are hidden from this user are wanted too: "unknown" would be a wrong answer.
    partitions = ask("scontrol", "--all", "-o", "show", "partition", limit_s=limit_s)
    if partitions.text is None:
        return Site(problem=partitions.reason)
    nodes = ask("scontrol", "--all", "-o", "show", "node", limit_s=limit_s)
    if nodes.text is None:
        return Site(problem=nodes.reason)
    found = parse_partitions(partitions.text)
    if not found:
        return Site(problem="'scontrol --all -o show partition' named no partition")
    associations, qos_enforced = _associations(limit_s)
    return Site(found, parse_nodes(nodes.text), associations, qos_enforced, _groups())


def _groups() -> frozenset[str] | None:
    """The names of this user's groups; None for root, whom SLURM lets into every partition."""
    if os.getuid() == 0:
        return None
    names = set()
    for number in {os.getgid(), *os.getgroups()}:
        try:
            names.add(grp.getgrgid(number).gr_name)
        except KeyError:
            continue
    return frozenset(names)


def _associations(limit_s: float) -> tuple[tuple[Association, ...], bool]:
    """What this user may charge; nothing where SLURM does not enforce it or does not tell."""
    config = ask("scontrol", "show", "config", limit_s=limit_s).text or ""
    accounts, qos = enforced(setting(config, "AccountingStorageEnforce"))
    cluster = setting(config, "ClusterName")
    if not accounts:
        return (), False
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a user without a name, as in some containers
        return (), False
    where = [f"user={user}", *([f"cluster={cluster}"] if cluster else [])]
    answer = ask(
        *("sacctmgr", "-nP", "show", "assoc", "where", *where, f"format={FORMAT}"), limit_s=limit_s
    )
    return parse_associations(answer.text or ""), qos


def setting(config: str, key: str) -> str | None:
    """One value of `scontrol show config`."""
    match = re.search(rf"^{re.escape(key)}[ \t]*=[ \t]*(.*?)[ \t]*$", config, re.MULTILINE)
    return match[1] if match and match[1] not in ("", "(null)") else None
