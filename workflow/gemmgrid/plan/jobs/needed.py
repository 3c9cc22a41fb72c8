"""Which planned cells need a run, and for which occasion: told from the histories alone.

Snakemake's own metadata decides nothing here, so results may be copied, cloned and unpacked.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from gemmgrid.plan.grid.expand import PlannedCell
from gemmgrid.plan.plan import Plan
from gemmgrid.records.context import digest
from gemmgrid.records.foreign_runs import is_elsewhere
from gemmgrid.records.latest import beginning, spec_digest

MISSING, CHANGED, LOST, ELSEWHERE = "missing", "changed", "lost", "elsewhere"


class Histories:
    """The newest runs of a plan's cells, each read once, as far as planning asks."""

    def __init__(self, plan: Plan, folder: Path = Path()) -> None:
        self.plan, self.folder = plan, folder
        self._latest: dict[str, dict[str, Any] | None] = {}

    def latest(self, cell: PlannedCell) -> dict[str, Any] | None:
        """The beginning of the cell's newest run."""
        if cell.path not in self._latest:
            self._latest[cell.path] = beginning(self.folder / cell.path)
        return self._latest[cell.path]

    def latest_id(self, cell: PlannedCell) -> str | None:
        run = self.latest(cell)
        return str(run["id"]) if run else None

    def why(self, cell: PlannedCell) -> str | None:
        """Why the cell needs a run: MISSING, CHANGED, LOST or ELSEWHERE; None where it has one.

        A run that another machine made counts as none only where cells are sent to nodes: there
        the same command may reach the right one.
        """
        run = self.latest(cell)
        if run is None:
            return MISSING
        if run["status"] == "lost":
            return LOST
        if not answers(run, cell):
            return CHANGED
        return ELSEWHERE if self.plan.machines and is_elsewhere(run) else None

    def occasion(self, cell: PlannedCell) -> str:
        """What the next run of this cell is for: its place, spec, the settings, the run before it.

        Whatever an interrupted run left under another occasion belongs to another run.
        """
        return digest([cell.path, spec_digest(cell.spec), self._settings, self.latest_id(cell)], 16)

    @cached_property
    def _settings(self) -> str:
        return digest([self.plan.settings, self.plan.seed])


def answers(run: Mapping[str, Any], cell: PlannedCell) -> bool:
    """Whether the run was made of what the plan says now.

    A run keeps a digest of its spec. An older one does not: then all is compared that it tells.
    """
    if run.get("spec"):
        return bool(run["spec"] == spec_digest(cell.spec))
    document = cell.document
    backend = (run.get("context") or {}).get("backend") or {}
    if run["cell"] != document["cell"]:
        return False
    for key in ("adapter", "device"):
        if run.get(key, document[key]) != document[key]:
            return False
    if backend.get("options", document["options"]) != document["options"]:
        return False
    told = backend.get("variables")
    wanted = document["variables"]
    # What a study says of threads gives way to the cell's own, so it is no difference.
    return told is None or all(
        told.get(name, value) == value for name, value in wanted.items() if "THREADS" not in name
    )
