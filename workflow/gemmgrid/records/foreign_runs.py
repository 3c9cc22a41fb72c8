"""Runs that do not count for the machine in whose folder they are: made on other hardware.

The measuring side flags them: the host is not the one that machine.json describes, or not what
the machine's entry in config/machines.yaml promises. Files may also have been put together since,
so whoever reads compares the host again. They stay in the history, and stand for themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from gemmgrid.records import history
from gemmgrid.records.files import read_regular
from gemmgrid.records.identity import is_same

FLAG = "other-machine"
MACHINE_FILE = "machine.json"


def is_elsewhere(run: Mapping[str, Any], facts: Mapping[str, Any] | None = None) -> bool:
    """Whether the run carries the flag, or its host is another than machine.json's `facts` tell.

    A lost run knows no host; any other does. Facts that cannot be understood, or that lack even the
    architecture, tell nothing.
    """
    flags = run.get("flags")
    if isinstance(flags, list) and FLAG in flags:
        return True
    host = run.get("host") or {}
    lost = run.get("status") == "lost" and not host.get("id")
    if lost or not facts or not facts.get("architecture"):
        return False
    try:
        return not is_same(host, run.get("gpu"), facts)
    except (ValueError, KeyError, TypeError, AttributeError):
        return False


def facts_beside(path: Path) -> dict[str, Any] | None:
    """What machine.json of the folder of a cell's file tells; None where that cannot be read."""
    try:
        file = path.parents[1] / MACHINE_FILE
        status = file.stat()
        return _read(file, status.st_mtime_ns, status.st_size)
    except (OSError, ValueError, IndexError, RecursionError):
        return None


@lru_cache(maxsize=16)
def _read(file: Path, _mtime_ns: int, _size: int) -> dict[str, Any] | None:
    document = history.loads(read_regular(file))
    return document if isinstance(document, dict) else None


def latest_own(path: Path) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """The newest run that counts for the machine, and the newest of all where that does not.

    (None, None) for a file without any run. The whole history is read only in the second case.
    """
    newest, facts = history.latest(path), facts_beside(path)
    if newest is None or not is_elsewhere(newest, facts):
        return newest, None
    runs = reversed(history.read(path).runs)
    return next((run for run in runs if not is_elsewhere(run, facts)), None), newest


def broken(run: Mapping[str, Any]) -> list[str]:
    """What of the machine's promise does not hold, a sentence each; empty where nothing is told."""
    promise = run.get("promise")
    found = promise.get("broken") if isinstance(promise, Mapping) else None
    return [text for text in found if isinstance(text, str)] if isinstance(found, list) else []
