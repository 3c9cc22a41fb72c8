"""A run that another machine made than its folder's: its name, and what is different."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gemmgrid.records.foreign_runs import FLAG
from gemmgrid.report.read.fields import Fields

SEPARATOR = "~"
"""No machine's name may hold it, so that a name with it is never a folder's."""
OTHER_HARDWARE = "other hardware than machine.json describes"
OTHER_ROUNDS = "some or all of its rounds ran on other hardware than machine.json describes"


def is_apart(fields: Fields) -> bool:
    """Whether the run carries the flag that its machine did not make it."""
    return FLAG in fields.texts("flags")


def name_of(machine: str, fields: Fields) -> str:
    """`icelake~7f3a2c`: the folder's machine and the host that really ran.

    `icelake~7f3a2c.91ab` where a GPU did the work, which is part of what ran.
    """
    host, gpu = _hex(fields.text("host.id")), _hex(fields.text("gpu.id"))
    return f"{machine}{SEPARATOR}{host[:6] or 'unknown'}" + (f".{gpu[:4]}" if gpu else "")


def differences(fields: Fields, machine: Mapping[str, Any] | None) -> list[str]:
    """What is different about where the run was made, a plain phrase each.

    What breaks the machine's promise, or else that the hardware is other; and CPU and GPU by name,
    where machine.json tells of others.
    """
    rounds = fields.integer("settings.rounds") or 1
    told = fields.texts("promise.broken") or [OTHER_ROUNDS if rounds > 1 else OTHER_HARDWARE]
    described = Fields(machine or {})
    pairs = [
        ("CPU {}", fields.text("host.model"), described.text("cpu.model")),
        ("{} cores", _count(fields, "host.cores"), _count(described, "cpu.cores")),
        ("GPU {}", fields.text("gpu.name"), _gpus(described)),
    ]
    told += [f"{words.format(is_)}, not {was}" for words, is_, was in pairs if _differ(is_, was)]
    return told


def _differ(here: str | None, there: str | None) -> bool:
    return bool(here and there and here not in there.split(" or "))


def _count(fields: Fields, path: str) -> str | None:
    count = fields.integer(path)
    return None if count is None else str(count)


def _gpus(described: Fields) -> str | None:
    names = [part.text("name") for part in described.parts("gpus")]
    return " or ".join(dict.fromkeys(filter(None, names))) or None


def _hex(identity: str | None) -> str:
    """An id as it may stand in a name, whatever the record holds."""
    return re.sub("[^0-9a-z]", "", (identity or "").lower())
