"""Runs in a machine's folder that another machine made: shown apart, under a name of their own.

Nothing in the report averages, compares or draws them: they are never among a collection's cells
and runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gemmgrid.report.read.rows import Row, standing
from gemmgrid.report.read.slurm import facts


@dataclass
class Apart:
    """What one other host left in one machine's folder.

    name: as shown, the machine's and the start of the host's id; machine: the folder; runs: all,
    oldest first within a cell; cells: the latest of each, as `rows.standing` gives it.
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


def gather(rows: Iterable[Row]) -> list[Apart]:
    """The rows by the name that they are shown under."""
    found: dict[str, Apart] = {}
    histories: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        name = row["machine"]
        found.setdefault(name, Apart(name, row["apart_from"])).runs.append(row)
        histories.setdefault(row.key, []).append(row)
    for key in sorted(histories):
        found[key[0]].cells.append(standing(histories[key]))
    return [found[name] for name in sorted(found)]


def missing_reason(rows: Sequence[Row]) -> str:
    """Why a planned cell counts as not measured though its file holds these runs of others."""
    latest = max(rows, key=lambda row: row["failed_at"] or row["measured_at"] or "")
    place = f" ({latest.slurm.place})" if latest.slurm and latest.slurm.place else ""
    return f"run only on {latest['machine']}{place}: {'; '.join(latest.differences)}"
