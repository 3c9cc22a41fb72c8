"""Runs that do not count for the machine in whose folder they are: made on other hardware.

The measuring side flags them: the host is not the one that machine.json describes, or not what
the machine's entry in config/machines.yaml promises. They stay in the history, and stand for
themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gemmgrid.records import history

FLAG = "other-machine"


def is_elsewhere(run: Mapping[str, Any]) -> bool:
    """Whether the run carries the flag."""
    flags = run.get("flags")
    return isinstance(flags, list) and FLAG in flags


def latest_own(path: Path) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """The newest run that counts for the machine, and the newest of all where that does not.

    (None, None) for a file without any run. The whole history is read only in the second case.
    """
    newest = history.latest(path)
    if newest is None or not is_elsewhere(newest):
        return newest, None
    runs = reversed(history.read(path).runs)
    return next((run for run in runs if not is_elsewhere(run)), None), newest


def broken(run: Mapping[str, Any]) -> list[str]:
    """What of the machine's promise does not hold, a sentence each; empty where nothing is told."""
    promise = run.get("promise")
    found = promise.get("broken") if isinstance(promise, Mapping) else None
    return [text for text in found if isinstance(text, str)] if isinstance(found, list) else []
