"""Which accounts and qualities of service a user has, from `sacctmgr show assoc`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

_ENFORCING = {"associations", "limits", "qos", "safe", "wckeys", "all"}
FORMAT = "account,partition,qos"
"""The columns that parse_associations expects, from `sacctmgr -nP show assoc`."""


@dataclass(frozen=True)
class Association:
    """One account that the user may charge, in one partition or (None) in all."""

    account: str
    partition: str | None
    qos: tuple[str, ...]


def parse_associations(text: str) -> tuple[Association, ...]:
    """The associations of a user: one a line, columns as FORMAT says, separated by `|`."""
    rows = [line.split("|") for line in text.splitlines() if line.strip()]
    return tuple(
        Association(row[0], row[1] or None, tuple(one for one in row[2].split(",") if one))
        for row in rows
        if len(row) >= 3 and row[0]
    )


def enforced(setting: str | None) -> tuple[bool, bool]:
    """Whether SLURM refuses foreign accounts, and foreign qualities of service.

    `setting` is AccountingStorageEnforce of `scontrol show config`; None (not known) is neither.
    """
    words = {word.strip().casefold() for word in (setting or "").split(",")}
    return not words.isdisjoint(_ENFORCING), not words.isdisjoint({"qos", "all"})


def accounts_of(associations: Iterable[Association], partition: str) -> list[str]:
    """The accounts that can be charged in a partition."""
    return sorted({one.account for one in associations if one.partition in (None, partition)})


def qos_of(associations: Iterable[Association], partition: str, account: str | None) -> list[str]:
    """What an account (any, without one) may ask for as `qos` in a partition."""
    return sorted(
        {
            qos
            for one in associations
            if one.partition in (None, partition)
            and (account is None or one.account.casefold() == account.casefold())
            for qos in one.qos
        }
    )
