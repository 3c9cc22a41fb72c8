"""Rounds of runs until they stand in their histories: nothing measured is lost.

A part is one round of one run, a file of its own:
parts/<machine>/<backend>/<cell>.<occasion>.<round>.json. The occasion says which run it is for, so
whatever an interrupted start leaves is taken up by the next one, or belongs to no run any more. On
nodes every run goes this way, and the submit host joins and appends it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gemmgrid.measure.supervise.progress import passing_over
from gemmgrid.measure.supervise.rounds import gather
from gemmgrid.records import files, history
from gemmgrid.records.run import NotARunError, migrate

PAUSE_S = 1.0
"""Before the second and last try to write a run that a network file system refused."""


class Parts:
    """The parts of one cell's next run. `entry` is the cell's of blocks.jsonl."""

    def __init__(self, folder: Path, entry: Mapping[str, Any], rounds: int) -> None:
        self.history = Path(entry["path"])
        self.latest = entry["latest"]
        self.rounds = range(1, rounds + 1)
        place = Path(*self.history.parts[-3:-1])
        self._stem = folder / place / f"{self.history.stem}.{entry['occasion']}"

    def look_anew(self) -> None:
        """Make a network file system's client read the folder again: a new file does."""
        beside = self._stem.parent / f".look.{os.getpid()}"
        if beside.parent.is_dir():
            with passing_over(f"{beside} cannot be written"):
                beside.touch()
                beside.unlink(missing_ok=True)

    def file(self, number: int) -> Path:
        return Path(f"{self._stem}.{number}.json")

    def put(self, number: int, run: Mapping[str, Any]) -> None:
        """Keep one round, in one step."""
        content = history.dumps(run).encode()
        try:
            files.write_atomically(self.file(number), content)
        except OSError as error:
            if error.errno not in files.PASSING:
                raise
            time.sleep(PAUSE_S)
            files.write_atomically(self.file(number), content)

    def get(self, number: int) -> dict[str, Any] | None:
        """A round that is kept; None where it is not, or the file is no part of this cell's run."""
        file = self.file(number)
        try:
            run = migrate(json.loads(file.read_bytes()))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError, NotARunError, TypeError) as error:
            problem = f"is no part of a run: {error}"
        else:
            if run["cell"].get("name") == self.history.stem:
                return run
            problem = f"holds another cell: {run['cell'].get('name')}"
        print(f"gemmgrid: {file} {problem}; it is measured again", file=sys.stderr, flush=True)
        return None

    @property
    def has_failed(self) -> bool:
        """Whether a round that is kept did not end well."""
        return any(_failed(part) for part in map(self.get, self.rounds) if part)

    @property
    def is_over(self) -> bool:
        """Whether the history holds a newer run than the one that this occasion is to follow."""
        newest = history.latest(self.history)
        return (newest or {}).get("id") != self.latest

    def join(self) -> dict[str, Any] | None:
        """Append the run of all rounds, once, and forget its parts; None while one is missing.

        Where a round has failed, those that are there make the run: no more are measured.
        """
        parts = [part for part in map(self.get, self.rounds) if part]
        if len(parts) < len(self.rounds) and not any(map(_failed, parts)):
            return None
        run = gather(parts)
        if not history.holds(self.history, run["id"]):
            history.append(self.history, run)
        self.forget()
        return run

    def forget(self) -> None:
        """Remove the parts. No OSError comes out: what is left is known by its occasion."""
        for number in self.rounds:
            with passing_over(f"{self.file(number)} cannot be removed"):
                self.file(number).unlink(missing_ok=True)


def _failed(part: Mapping[str, Any]) -> bool:
    return bool(part["status"] != "ok")
