"""Which gemmgrid made a record: its version, and the checkout's commit where git can tell."""

from __future__ import annotations

import subprocess
from functools import cache
from typing import Any

from gemmgrid import __version__
from support import ROOT


@cache
def describe() -> dict[str, Any]:
    """The record's "tool"."""
    changed = _git("status", "--porcelain", "--untracked-files=no")
    return {
        "version": __version__,
        "commit": _git("rev-parse", "HEAD"),
        "dirty": None if changed is None else bool(changed),
    }


def _git(*arguments: str) -> str | None:
    command = ["git", "-C", str(ROOT), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
