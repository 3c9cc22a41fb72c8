"""A cell's file: its history, one JSON line per run. Appending never loses a run.

Runs are ordered by the time at which they ended, not by their place: a merge of two histories, by
git or by hand, leaves them one behind the other. The opposite case is a clock that its owner set
back: a run that is appended and would count as older than the one before it is given that one's id
as `follows`, and comes after it whatever its time. Either is said in the history's notes.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from gemmgrid.records.files import open_regular, read_regular, reason, write_atomically
from gemmgrid.records.run import NotARunError, admit

TAIL = 1 << 20
"""Bytes at a file's end that `latest` looks through for the newest run: some twenty runs."""
FOLLOWS = "follows"
Placed = list[tuple[int, dict[str, Any]]]
"""Runs, each with the number of its line."""
_MOMENT = r"[-0-9]{10}T[0-9:]{8}\.[0-9]{6}Z"
_TIMES = re.compile(rf'"(started_at|ended_at)": ?"({_MOMENT})"'.encode())
_CONFLICT = (b"<<<<<<< ", b"=======", b">>>>>>> ", b"||||||| ")


@dataclass
class History:
    """What a cell's file holds: its runs, oldest first, and the lines that are none.

    notes: what to know about runs that were read: values of a wrong type, lines out of order.
    Problems and notes are {"line": number or None, "problem": text}.
    """

    path: Path
    runs: list[dict[str, Any]] = field(default_factory=list)
    problems: list[dict[str, Any]] = field(default_factory=list)
    notes: list[dict[str, Any]] = field(default_factory=list)

    @property
    def latest(self) -> dict[str, Any] | None:
        return self.runs[-1] if self.runs else None


def append(path: Path, run: Mapping[str, Any]) -> None:
    """Add one run to the history at `path`, whole or not at all.

    The new history is written beside the old one, synced, and renamed over it, so that a kill or a
    full disk at any moment leaves the earlier history as it was. Bytes already there, readable
    or not, are kept as they are.
    """
    try:
        earlier = read_regular(path)
    except FileNotFoundError:
        earlier = b""
    if earlier and not earlier.endswith(b"\n"):
        earlier += b"\n"
    if any(_time_of(line) > moment(run) for line in earlier.split(b"\n") if line.strip()):
        before = _parse(path, earlier).runs
        run = {**run, FOLLOWS: before[-1]["id"]} if before else run
    write_atomically(path, earlier + dumps(run).encode() + b"\n")


def read(path: Path) -> History:
    """All runs of a file, migrated; lines that are no runs become problems and are left alone."""
    try:
        return _parse(path, read_regular(path))
    except OSError as error:
        return History(path, problems=[{"line": None, "problem": reason(path, error)}])


def holds(path: Path, run_id: str) -> bool:
    """Whether a run of this id is in the history; OSError where that cannot be told."""
    try:
        content = read_regular(path)
    except FileNotFoundError:
        return False
    return any(run["id"] == run_id for run in _parse(path, content).runs)


def latest(path: Path, tail: int = TAIL) -> dict[str, Any] | None:
    """The newest run of a file, migrated; None without one. The same as `read(path).latest`."""
    return next((run for line in newest_lines(path, tail) if (run := _run_of(line)[0])), None)


def newest_lines(path: Path, tail: int = TAIL) -> Iterator[bytes]:
    """A file's lines, the newest first and unread: the first that is a run is the newest run.

    Thousands of files are asked whenever a study is planned, so of each no more than `tail` bytes
    are read while the first line is enough, and of runs there only their times. A merge whose
    lines reach further back than that is read in another order than by `read`. Nothing from what
    is no file, or cannot be read.
    """
    try:
        with open_regular(path) as file:
            size = file.seek(0, os.SEEK_END)
            while True:
                start = max(0, size - tail)
                file.seek(start)
                content = file.read()
                lines = content.split(b"\n")
                if f'"{FOLLOWS}"'.encode() in content:
                    lines = read_regular(path).split(b"\n")
                    placed = _runs_of(lines, History(path))
                    yield from (lines[number - 1] for number, _ in reversed(_in_order(placed)))
                    return
                filled = [line for line in (lines[1:] if start else lines) if line.strip()]
                times = [_time_of(line) for line in filled]
                order = sorted(range(len(filled)), key=lambda at: (times[at], at), reverse=True)
                yield from (filled[at] for at in order)
                if not start:
                    return
                tail *= 2
    except OSError:
        return


def moment(run: Mapping[str, Any]) -> str:
    """When a run ended, or began where that is not known; ISO 8601, which sorts as text."""
    ended = run.get("ended_at")
    return ended if ended and re.fullmatch(_MOMENT, ended) else str(run["started_at"])


def loads(line: bytes | str) -> Any:
    """The document of a line of JSON; ValueError where it is none, or a number in it is none."""
    return json.loads(line, parse_constant=_refuse, parse_float=_finite)


def dumps(document: Any) -> str:
    """One line of strict JSON: no NaN, no infinity, keys in the order given."""
    return json.dumps(document, separators=(",", ":"), allow_nan=False)


def _refuse(word: str) -> float:
    raise NotARunError(f"{word} is no number")


def _finite(text: str) -> float:
    value = float(text)
    return value if abs(value) != float("inf") else _refuse(text[:20])


def _parse(path: Path, content: bytes) -> History:
    history = History(path)
    if not content.strip():
        history.problems.append({"line": None, "problem": "empty"})
    placed = _runs_of(content.split(b"\n"), history)
    ordered = _in_order(placed)
    history.runs = [run for _, run in ordered]
    history.notes += _disorder(placed, ordered)
    return history


def _runs_of(lines: list[bytes], history: History) -> Placed:
    """The lines' runs with their numbers; what is to be said about lines goes to the history."""
    placed: Placed = []
    seen: set[bytes] = set()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        run, problem, notes = _run_of(line)
        if run is None:
            history.problems.append({"line": number, "problem": problem})
        elif line in seen:
            history.notes.append({"line": number, "problem": "stands twice: counted once"})
        else:
            seen.add(line)
            placed.append((number, run))
            history.notes += [{"line": number, "problem": f"{t}; read as unknown"} for t in notes]
    return placed


def _run_of(line: bytes) -> tuple[dict[str, Any] | None, str, list[str]]:
    """The run of a line, or why it is none; and what in it was of a wrong type."""
    try:
        run, notes = admit(loads(line))
        return run, "", notes
    except UnicodeDecodeError:
        return None, "not text", []
    except json.JSONDecodeError as error:
        if line.startswith(_CONFLICT):
            return None, "a git conflict marker: resolve it by keeping all lines", []
        return None, f"not JSON: {error}", []
    except RecursionError:
        return None, "not JSON: nested too deeply", []
    except (ValueError, TypeError, OverflowError) as error:
        # Numbers of 10,000 digits, lists where a number belongs: JSON, but no run.
        return None, f"not a run: {error}", []


def _in_order(read: Placed) -> Placed:
    """The runs by time; one that follows another comes right after it where its time is earlier."""
    places: dict[str, tuple[str, int]] = {}
    keys: list[tuple[str, int]] = []
    followers = sum(FOLLOWS in run for _, run in read)
    for _ in range(1 + followers):  # again for those that stand before the run they follow
        keys = []
        for _, run in read:
            key = (moment(run), 0)
            if (before := places.get(run.get(FOLLOWS) or "")) and before[0] > key[0]:
                key = (before[0], before[1] + 1)
            keys.append(key)
            places[run["id"]] = key
    return [read[at] for at in sorted(range(len(read)), key=keys.__getitem__)]


def _disorder(read: Placed, ordered: Placed) -> list[dict[str, Any]]:
    """What was assumed about lines that are not in the order of their time."""
    told = {}
    if read != ordered:
        at = next(at for at in range(len(read)) if read[at] != ordered[at])
        told[ordered[at][0]] = (
            f"ended at {moment(ordered[at][1])}, before the runs above it, as a merge or a clock "
            "that was set back leaves it: runs are taken in the order of their time, and line "
            f"{ordered[-1][0]} is the latest"
        )
    for (_, before), (number, run) in pairwise(ordered):
        if run.get(FOLLOWS) and moment(run) < moment(before):
            told[number] = (
                f"was appended after a run of {moment(before)} and says {moment(run)}: the clock "
                "was set back, so its place is taken for its time"
            )
    return [{"line": number, "problem": text} for number, text in told.items()]


def _time_of(line: bytes) -> str:
    """A run's `moment`, from the start of its line, where gemmgrid writes it; or from all of it."""
    found = {key: value.decode() for key, value in reversed(_TIMES.findall(line[:1000]))}
    if b"started_at" in found:
        return found.get(b"ended_at") or found[b"started_at"]
    run, _, _ = _run_of(line)
    return moment(run) if run else ""
