"""Whether a partition takes a machine's jobs at all: it exists, is up, and its limits hold them."""

from __future__ import annotations

from collections.abc import Iterable

from gemmgrid.plan.config.errors import choose, found
from gemmgrid.plan.config.machines import Machine
from gemmgrid.plan.slurm.accounts import accounts_of, qos_of
from gemmgrid.plan.slurm.partitions import Partition
from gemmgrid.plan.slurm.site import Site

Said = tuple[str | None, str]
"""The key of the machine's entry that a message is about (None: the entry), and the message."""

_STATES = {
    "DOWN": "jobs are taken, but none starts",
    "DRAIN": "no new jobs are taken",
    "INACTIVE": "no jobs are taken and none starts",
}


def named(machine: Machine, site: Site) -> tuple[list[Partition], list[Said]]:
    """The partitions that the machine's jobs may go to, and what is wrong with their names.

    Without `partition` it is the cluster's default one; several are separated by commas.
    """
    if machine.partition is None:
        default = site.default_partition
        if default:
            return [default], []
        text = f"missing, and this cluster has no default partition. {choose('', site.partitions)}"
        return [], [("partition", text)]
    names = [name for name in machine.partition.split(",") if name]
    wrong: list[Said] = [
        (
            "partition",
            f"found {found(name)}, and this cluster has no partition of that name. "
            f"{choose(name, site.partitions)}",
        )
        for name in names
        if name not in site.partitions
    ]
    return [site.partitions[name] for name in names if name in site.partitions], wrong


def refusals(machine: Machine, partition: Partition, site: Site) -> list[Said]:
    """Why this partition would not run the machine's jobs; empty where it would."""
    name = found(partition.name)
    said: list[Said] = []
    state = next((text for word, text in _STATES.items() if partition.state == word), None)
    if state:
        others = [one.name for one in site.partitions.values() if one.state == "UP"]
        up = f" Partitions that are up: {', '.join(others)}." if others else ""
        said.append(("partition", f"partition {name} is {partition.state}: {state}.{up}"))
    if partition.min_nodes > 1:
        said.append(
            (
                "partition",
                f"partition {name} takes jobs of {partition.min_nodes} nodes or more (MinNodes), "
                f"and a machine is measured on one. Name another partition.",
            )
        )
    longest = partition.max_minutes
    if machine.runtime_min is not None and longest is not None and machine.runtime_min > longest:
        said.append(
            (
                "runtime_min",
                f"found {machine.runtime_min}, and partition {name} allows at most {longest} "
                f"minutes (MaxTime): SLURM would refuse the job or let it wait for ever. "
                f"Write 'runtime_min: {longest}' or less.",
            )
        )
    said += _account(machine, partition, site)
    said += _qos(machine, partition, site)
    return said


def doubts(partition: Partition, site: Site) -> list[Said]:
    """What may keep this user out, though only the cluster's own user database knows."""
    if site.groups is None or not partition.allow_groups:
        return []
    if not site.groups.isdisjoint(partition.allow_groups):
        return []
    return [
        (
            "partition",
            f"partition {found(partition.name)} is open to the groups "
            f"{', '.join(partition.allow_groups)} only, and this user seems to be in none of them",
        )
    ]


def _account(machine: Machine, partition: Partition, site: Site) -> list[Said]:
    mine = accounts_of(site.associations, partition.name)
    allowed = _Allowed(partition.allow_accounts, partition.deny_accounts)
    if machine.account is None:
        if mine and not any(map(allowed, mine)):
            return [
                (
                    "account",
                    f"missing, and partition {found(partition.name)} takes none of this user's "
                    f"accounts ({', '.join(mine)}){_listed(partition.allow_accounts)}.",
                )
            ]
        return []
    return _checked("account", machine.account, mine, allowed, partition)


def _qos(machine: Machine, partition: Partition, site: Site) -> list[Said]:
    if machine.qos is None:
        return []
    mine = qos_of(site.associations, partition.name, machine.account) if site.qos_enforced else []
    allowed = _Allowed(partition.allow_qos, partition.deny_qos)
    return _checked("qos", machine.qos, mine, allowed, partition)


def _checked(
    key: str, value: str, mine: list[str], allowed: _Allowed, partition: Partition
) -> list[Said]:
    """What is wrong with an account or a quality of service; `mine` is empty where unknown."""
    listed = partition.allow_accounts if key == "account" else partition.allow_qos
    here = f"partition {found(partition.name)}"
    said: list[Said] = []
    if mine and value.casefold() not in {one.casefold() for one in mine}:
        text = f"found {found(value)}, which this user does not have in {here}."
        said.append((key, f"{text} {choose(value, mine)}"))
    if not allowed(value):
        both = [one for one in mine if allowed(one)] or list(listed)
        cure = choose(value, both) if both else f"Name another {key} or another partition."
        text = f"found {found(value)}, which {here} does not take{_listed(listed)}."
        said.append((key, f"{text} {cure}"))
    return said


class _Allowed:
    """A partition's word on a name: in the allowed ones where there are any, else not denied."""

    def __init__(self, allow: Iterable[str], deny: Iterable[str]) -> None:
        self.allow = {one.casefold() for one in allow}
        self.deny = {one.casefold() for one in deny}

    def __call__(self, name: str) -> bool:
        if self.allow:
            return name.casefold() in self.allow
        return name.casefold() not in self.deny


def _listed(names: Iterable[str]) -> str:
    text = ", ".join(names)
    return f" (it takes {text})" if text else ""
