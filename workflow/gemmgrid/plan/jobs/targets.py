"""What a command line asks for: which cells may be measured, and which whatever their history."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gemmgrid.plan.grid.expand import PlannedCell
from gemmgrid.plan.jobs.needed import Histories

_HISTORY = re.compile(r"results/[^/]+/[^/]+/[^/]+\.jsonl")
LOOKING = frozenset(
    {"report", "stale", "compare", "check", "references", "explain", "environments", "refresh"}
)
"""Rules that measure nothing by themselves; a refresh measures what it has chosen."""


def is_history(path: str) -> bool:
    """Whether this is the path of a cell's file, by its form."""
    return _HISTORY.fullmatch(os.path.normpath(path)) is not None


def is_rule(target: str, *names: str) -> bool:
    """Whether a target is one of these rules, also under the name that a module gives it."""
    return any(target == name or target.endswith(f"_{name}") for name in names)


@dataclass(frozen=True)
class Targets:
    """What was named on the command line, and what of it is forced (-f, -R, -F)."""

    names: frozenset[str] = frozenset()
    forced: frozenset[str] = frozenset()
    all_forced: bool = False
    target_forced: bool = False
    refreshed: frozenset[str] = field(default_factory=frozenset)
    """Paths of the cells that a refresh chose."""

    @property
    def measure(self) -> bool:
        """Whether a study is to be measured, and not one cell or what lies there looked at."""
        return not self.names or any(
            not is_history(name) and not is_rule(name, *LOOKING) for name in self.names
        )

    def cells(self, planned: Mapping[str, PlannedCell], histories: Histories) -> list[PlannedCell]:
        """The cells to measure, of those that the plan has by path."""
        named = {os.path.normpath(name) for name in self.names if is_history(name)}
        asked = set(planned) if self.measure else named
        forced = {os.path.normpath(name) for name in self.forced} | self.refreshed
        if self.target_forced:
            forced |= named
        everything = self.all_forced or any(
            is_rule(re.sub(r"_modules_\d+$", "", name), "measure") for name in self.forced
        )
        return [
            cell
            for path, cell in planned.items()
            if (everything and (path in asked or path in self.refreshed))
            or path in forced
            or (path in asked and histories.why(cell))
        ]


def unknown(arguments: Iterable[str], planned: Mapping[str, PlannedCell]) -> str | None:
    """The first argument that has the form of a cell's file and is no cell of the plan."""
    for one in arguments:
        if is_history(one) and os.path.normpath(one) not in planned:
            return os.path.normpath(one)
    return None
