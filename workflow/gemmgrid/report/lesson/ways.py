"""How each line of the lesson's table can be seen: the commands to type, from its `way`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gemmgrid.records import commands


def explain(way: Mapping[str, Any], deploy: str | None) -> str:
    """Shows in the terminal what runs under the line's expression."""
    return _explain(way["backend"], {"shape": "512", **way}, deploy)


def explain_counter(way: Mapping[str, Any], deploy: str | None) -> str | None:
    """Shows an expression for which the line does not hold, if there is one to show."""
    return _explain(way["backend"], way["counter"], deploy) if way["counter"] else None


def measure(way: Mapping[str, Any], deploy: str | None) -> str:
    """Measures cells of the line, so that they stand in the report."""
    study = [f"config/studies/{way['study']}.yaml"]
    config = [f"backends={way['backend']}"]
    return commands.text(commands.words(deploy=deploy, configfiles=study, config=config))


def _explain(backend: str, shown: Mapping[str, Any], deploy: str | None) -> str:
    config = [f"expr={shown['expr']}", f"backend={backend}"]
    config += [f"{key}={shown[key]}" for key in ("dtype", "shape")]
    return commands.text(commands.words(["explain"], deploy=deploy, config=config))
