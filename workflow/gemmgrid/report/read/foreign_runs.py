"""Runs in a machine's folder that another machine made: shown apart, under a name of their own.

Nothing in the report averages, compares or draws them: they are never among a collection's cells
and runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gemmgrid.report.read.fields import Fields
from gemmgrid.report.read.slurm import facts

if TYPE_CHECKING:
    from gemmgrid.report.read.rows import Row

SEPARATOR = "~"
"""No machine's name may hold it, so that a name with it is never a folder's."""
OTHER_HARDWARE = "other hardware than machine.json describes"
OTHER_ROUNDS = "some or all of its rounds ran on other hardware than machine.json describes"


@dataclass
class ForeignRuns:
    """What one other host left in one machine's folder.

    name: as shown, the machine's and the start of the host's id; machine: the folder; runs: all,
    oldest first within a cell; cells: the latest of each.
    """

    name: str
    machine: str
    runs: list[Row] = field(default_factory=list)
    cells: list[Row] = field(default_factory=list)

    @property
    def differences(self) -> list[str]:
        """What is different, each sentence once."""
        return list(dict.fromkeys(text for row in self.runs for text in row.differences))

    @property
    def place(self) -> str:
        """The nodes and partitions, as far as SLURM ran it and they are known."""
        told = facts(row.slurm for row in self.runs)
        named = (("node", told.get("SLURM node")), ("partition", told.get("SLURM partition")))
        return ", ".join(f"{word} {names}" for word, names in named if names)


def gather(runs: Iterable[Row], cells: Iterable[Row]) -> list[ForeignRuns]:
    """The foreign runs, and the latest ones of their cells, by the name they are shown under."""
    found: dict[str, ForeignRuns] = {}
    for row in runs:
        name = row["machine"]
        found.setdefault(name, ForeignRuns(name, row["apart_from"])).runs.append(row)
    for row in cells:
        found[row["machine"]].cells.append(row)
    return [found[name] for name in sorted(found)]


def missing_reason(rows: Sequence[Row]) -> str:
    """Why a planned cell counts as not measured though its file holds these runs of others."""
    latest = max(rows, key=lambda row: row["measured_at"] or "")
    place = f" ({latest.slurm.place})" if latest.slurm and latest.slurm.place else ""
    return f"run only on {latest['machine']}{place}: {'; '.join(latest.differences)}"


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
    gpus = dict.fromkeys(filter(None, (gpu.text("name") for gpu in described.parts("gpus"))))
    pairs: list[tuple[str, Any, Sequence[Any]]] = [
        ("CPU {}, not {}", fields.text("host.model"), [described.text("cpu.model")]),
        ("{} cores, not {}", fields.integer("host.cores"), [described.integer("cpu.cores")]),
        ("GPU {}, not {}", fields.text("gpu.name"), list(gpus)),
    ]
    for words, here, there in pairs:
        known = [one for one in there if one]
        if here and known and here not in known:
            told.append(words.format(here, " or ".join(map(str, known))))
    return told


def _hex(identity: str | None) -> str:
    """An id as it may stand in a name, whatever the record holds."""
    return re.sub("[^0-9a-z]", "", (identity or "").lower())
