"""A cell's file: its history, one JSON line per run, newest last. Appending never loses a run."""

from __future__ import annotations

import errno
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gemmgrid.records.run import NotARunError, migrate

PASSING = frozenset({errno.ESTALE, errno.EIO, errno.ETIMEDOUT})
"""Errors of a network file system that are often gone at the next try."""


@dataclass
class History:
    """What a cell's file holds: its runs, oldest first, and the lines that are none."""

    path: Path
    runs: list[dict[str, Any]] = field(default_factory=list)
    problems: list[dict[str, Any]] = field(default_factory=list)

    @property
    def latest(self) -> dict[str, Any] | None:
        return self.runs[-1] if self.runs else None


def append(path: Path, run: Mapping[str, Any]) -> None:
    """Add one run to the history at `path`, whole or not at all.

    The new history is written beside the old one, synced, and renamed over it, so that a kill or a
    full disk at any moment leaves the earlier history as it was. Bytes already there, readable
    or not, are kept as they are.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    earlier = path.read_bytes() if path.exists() else b""
    if earlier and not earlier.endswith(b"\n"):
        earlier += b"\n"
    write_atomically(path, earlier + dumps(run).encode() + b"\n")


def read(path: Path) -> History:
    """All runs of a file, migrated; lines that are no runs become problems and are left alone."""
    try:
        return _parse(path, path.read_bytes())
    except OSError as error:
        problem = {"line": None, "problem": f"cannot be read: {error.strerror}"}
        return History(path, problems=[problem])


def holds(path: Path, run_id: str) -> bool:
    """Whether a run of this id is in the history; OSError where that cannot be told."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return False
    return any(run["id"] == run_id for run in _parse(path, content).runs)


def _parse(path: Path, content: bytes) -> History:
    history = History(path)
    if not content.strip():
        history.problems.append({"line": None, "problem": "empty"})
    for number, line in enumerate(content.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            history.runs.append(migrate(json.loads(line)))
        except UnicodeDecodeError:
            history.problems.append({"line": number, "problem": "not text"})
        except json.JSONDecodeError as error:
            history.problems.append({"line": number, "problem": f"not JSON: {error}"})
        except RecursionError:
            history.problems.append({"line": number, "problem": "not JSON: nested too deeply"})
        except (NotARunError, ValueError, TypeError, OverflowError) as error:
            # Numbers of 10,000 digits, lists where a number belongs: JSON, but no run.
            history.problems.append({"line": number, "problem": f"not a run: {error}"})
    return history


def latest(path: Path, block: int = 1 << 18) -> dict[str, Any] | None:
    """The newest run of a file, migrated, without reading the runs before it; None without one.

    A last line that is no run is passed over, as `read` does.
    """
    try:
        with path.open("rb") as file:
            start = file.seek(0, os.SEEK_END)
            tail = b""
            while start > 0:
                step = min(block, start)
                start -= step
                file.seek(start)
                tail = file.read(step) + tail
                head, *lines = tail.split(b"\n")
                whole = [head, *lines] if start == 0 else lines
                for line in reversed(whole):
                    if run := _run_of(line):
                        return run
                tail = head if start else b""
                block *= 2
    except OSError:
        pass
    return None


def _run_of(line: bytes) -> dict[str, Any] | None:
    try:
        return migrate(json.loads(line)) if line.strip() else None
    except (ValueError, RecursionError):
        return None


def dumps(document: Any) -> str:
    """One line of strict JSON: no NaN, no infinity, keys in the order given."""
    return json.dumps(document, separators=(",", ":"), allow_nan=False)


def write_atomically(path: Path, content: bytes) -> None:
    """Replace the file's content in one step, synced to the disk before it becomes visible."""
    with _beside(path, content) as beside:
        beside.replace(path)


def create_atomically(path: Path, content: bytes) -> bool:
    """The same for a file that must not be there yet; False, with nothing done, where it is."""
    with _beside(path, content) as beside:
        try:
            path.hardlink_to(beside)
        except FileExistsError:
            return False
        except OSError:  # a file system without hard links
            if path.exists():
                return False
            beside.replace(path)
        return True


@contextmanager
def _beside(path: Path, content: bytes) -> Iterator[Path]:
    """The content in a finished file of another name in the same folder, gone afterwards."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:200]}.", suffix=".new")
    beside = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.chmod(0o644)
        yield beside
    finally:
        # The content may be in its place by now: what is left over is no reason to fail.
        with suppress(OSError):
            beside.unlink(missing_ok=True)
