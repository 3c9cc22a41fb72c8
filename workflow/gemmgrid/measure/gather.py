"""Rounds: a run whose processes were spread over the grid's time, put together from its parts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gemmgrid.measure.assemble import conclude
from gemmgrid.measure.whereabouts import Whereabouts

SHORTNESS = {"one-round", "few-invocations"}
"""Flags of a part that the whole need not have; `conclude` decides anew."""


def gather(parts: list[Path]) -> dict[str, Any]:
    """One run from the parts of its rounds, in the order given.

    The first part lends identity, context and evidence; invocations, flags and the time span come
    from all. A round that could not measure makes the run what that round was.
    """
    runs = [json.loads(path.read_text()) for path in parts]
    run: dict[str, Any] = dict(runs[0])
    run["invocations"] = [one for part in runs for one in part["invocations"]]
    run["flags"] = sorted(
        {flag for part in runs for flag in part["flags"]} - {"one-round", "few-invocations"}
    )
    run["conditions"] = {
        "before": runs[0]["conditions"]["before"],
        "after": runs[-1]["conditions"]["after"],
    }
    run["ended_at"] = runs[-1]["ended_at"]
    run["evidence"] = next((part["evidence"] for part in runs if part["evidence"]), None)
    halted = next((part for part in runs if not part["invocations"]), None)
    if halted:
        for key in ("status", "reason", "failure"):
            run[key] = halted[key]
        run["invocations"] = []
    hosts = {part["host"]["id"] for part in runs}
    if len(hosts) > 1:
        run["flags"].append("other-machine")
    conclude(run, Whereabouts(run["device"]).facts)
    return run
