"""The partitions of a cluster, from `scontrol -o show partition`."""

from __future__ import annotations

from dataclasses import dataclass

from gemmgrid.plan.slurm import fields


@dataclass(frozen=True)
class Partition:
    """One partition as SLURM describes it; None means no limit, an empty list no restriction.

    Times are minutes, memory is MB. `exclusive` is OverSubscribe=EXCLUSIVE: whole nodes for every
    job; `exclusive_user`: several jobs of one user may meet on a node.
    """

    name: str
    default: bool
    state: str
    max_minutes: int | None
    default_minutes: int | None
    min_nodes: int
    max_nodes: int | None
    max_cpus_per_node: int | None
    max_memory_mb: int | None
    default_memory_mb_per_node: int | None
    default_memory_mb_per_cpu: int | None
    allow_accounts: tuple[str, ...]
    deny_accounts: tuple[str, ...]
    allow_qos: tuple[str, ...]
    deny_qos: tuple[str, ...]
    allow_groups: tuple[str, ...]
    over_subscribe: str
    exclusive_user: bool

    @property
    def exclusive(self) -> bool:
        return self.over_subscribe == "EXCLUSIVE"


def parse_partitions(text: str) -> dict[str, Partition]:
    """Every partition of `scontrol -o show partition` by its name."""
    found = (_partition(line) for line in fields.records(text, "PartitionName"))
    return {partition.name: partition for partition in found if partition}


def _partition(line: str) -> Partition | None:
    name = fields.value(line, "PartitionName")
    if name is None:
        return None
    return Partition(
        name=name,
        default=fields.value(line, "Default") == "YES",
        state=fields.value(line, "State") or "UP",
        max_minutes=fields.minutes(fields.value(line, "MaxTime")),
        default_minutes=fields.minutes(fields.value(line, "DefaultTime")),
        min_nodes=fields.number(line, "MinNodes") or 0,
        max_nodes=fields.number(line, "MaxNodes"),
        max_cpus_per_node=fields.number(line, "MaxCPUsPerNode"),
        max_memory_mb=fields.number(line, "MaxMemPerNode"),
        default_memory_mb_per_node=fields.number(line, "DefMemPerNode"),
        default_memory_mb_per_cpu=fields.number(line, "DefMemPerCPU"),
        allow_accounts=_restricted(line, "AllowAccounts"),
        deny_accounts=fields.words(line, "DenyAccounts"),
        allow_qos=_restricted(line, "AllowQos"),
        deny_qos=fields.words(line, "DenyQos"),
        allow_groups=_restricted(line, "AllowGroups"),
        over_subscribe=fields.value(line, "OverSubscribe") or "NO",
        exclusive_user=fields.value(line, "ExclusiveUser") == "YES",
    )


def _restricted(line: str, key: str) -> tuple[str, ...]:
    words = fields.words(line, key)
    return () if words == ("ALL",) else words
