"""Which processes of a run count: those that ran while the CPUs were as near as they can be.

What trips a machine has shown stands in `results/<machine>/trips.txt`, one a line: the host's id,
the threads of the cell, nanoseconds. Jobs append to it as they measure: a cell's own history only
gets its run when all rounds are done. It can be removed: it grows again.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from gemmgrid.records import states

TRIPS_FILE = "trips.txt"
LATER_S = 0.5
"""Before another process is started: states were seen to last from 1 to 22 seconds."""
READ_BYTES = 1 << 18


class Placement:
    """The states that this machine has shown with so many threads, kept in `path` (None: not)."""

    def __init__(self, path: Path | None, host: str | None, threads: int) -> None:
        self._path, self._head = path, f"{host} {threads} "
        self._trips: list[float] = []
        if path:
            with suppress(OSError), path.open("rb") as file:
                size = file.seek(0, 2)
                file.seek(max(0, size - READ_BYTES))
                self._read(file.read().decode("ascii", "replace").splitlines())

    def _read(self, lines: list[str]) -> None:
        for line in lines:
            if line.startswith(self._head):
                with suppress(ValueError):  # another job was writing
                    trip = float(line.removeprefix(self._head))
                    self._trips += [trip] if trip > 0 else []

    @property
    def states(self) -> states.Borders:
        return states.states(self._trips)

    def add(self, invocation: dict[str, Any]) -> None:
        """Remember the trips that a process saw. A file that cannot be written is left alone."""
        trips = states.trips_of(invocation)
        self._trips += trips
        if trips and self._path:
            lines = "".join(f"{self._head}{trip:.1f}\n" for trip in trips)
            with suppress(OSError):
                self._path.parent.mkdir(parents=True, exist_ok=True)
                with self._path.open("a", encoding="ascii") as file:
                    file.write(lines)

    def another(self, invocations: Sequence[dict[str, Any]], wanted: int) -> bool:
        """Whether one more process is needed: too few of the machine's best state until now."""
        borders = self.states
        named = [states.state_of(one, borders) for one in invocations]
        good = sum(name in (None, states.ORDER[0]) for name in named)
        return good < wanted and len(invocations) < 2 * wanted


def lacking(part: dict[str, Any]) -> int:
    """How many processes of a round ran in another state than the machine's best."""
    borders = part.get("states") or []
    named = [states.state_of(one, borders) for one in part["invocations"]]
    return sum(name not in (None, states.ORDER[0]) for name in named)


def set_aside(run: dict[str, Any]) -> None:
    """Name the processes that do not count by their state, and flag a run without the best one."""
    measured = [one for one in run["invocations"] if one["status"] == "ok"]
    for one in measured:
        one.pop("aside", None)
    found = states.sort(measured, run.get("states") or [])
    for one, name in found.aside:
        one["aside"] = name
    if found.best_seen not in (None, states.ORDER[0]):
        run["flags"].append("other-state")
