"""Rounds: a run whose processes were spread over the grid's time, put together from its parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gemmgrid.measure.machine.this_machine import ThisMachine
from gemmgrid.measure.supervise.assemble import DOUBTS, WORST_FIRST, conclude


def gather(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """One run from the parts of its rounds, in the order given.

    The first part lends identity, context and evidence; invocations, flags and the time span come
    from all. A round that failed makes the run what that round was, and the others' samples stay.
    """
    run: dict[str, Any] = dict(runs[0])
    run["invocations"] = [one for part in runs for one in part["invocations"]]
    run["flags"] = sorted({flag for part in runs for flag in part["flags"]} - DOUBTS)
    run["conditions"] = {
        "before": runs[0]["conditions"]["before"],
        "after": runs[-1]["conditions"]["after"],
    }
    run["ended_at"] = runs[-1]["ended_at"]
    run["states"] = runs[-1].get("states") or []
    run["evidence"] = next((part["evidence"] for part in runs if part["evidence"]), None)
    hosts = {part["host"]["id"] for part in runs}
    if len(hosts) > 1:
        run["flags"].append("other-machine")
    _join_places(run, runs)
    # Rates are judged by the hardware that reached them; of other hardware, each part was already.
    here = ThisMachine(run["device"])
    conclude(run, here.facts if hosts == {here.host["id"]} else {})
    worst = min(runs, key=_rank)
    if _rank(worst) <= _rank(run) and worst["status"] != "ok":
        run |= {key: worst[key] for key in ("status", "reason", "failure")}
    return run


def _rank(run: Mapping[str, Any]) -> int:
    return WORST_FIRST.index(run["status"])


def _join_places(run: dict[str, Any], parts: list[dict[str, Any]]) -> None:
    """The rounds of one run may be SLURM jobs of their own, on nodes of one kind."""
    places = [part["slurm"] for part in parts if part.get("slurm")]
    if places:
        run["slurm"] = joined = {**places[0], "unknown": dict(places[0]["unknown"])}
        for key in ("job_id", "node"):
            names = dict.fromkeys(place[key] for place in places if place.get(key))
            joined[key] = ", ".join(names) or None
        # Alone on the node is only who was so in every round.
        worst = min(places, key=lambda place: (False, None, True).index(place["exclusive"]))
        joined["exclusive"] = worst["exclusive"]
        joined["unknown"].pop("exclusive", None)
        if "exclusive" in worst["unknown"]:
            joined["unknown"]["exclusive"] = worst["unknown"]["exclusive"]
    promises = [part["promise"] for part in parts if part.get("promise")]
    if promises:
        broken = dict.fromkeys(text for promise in promises for text in promise["broken"])
        run["promise"] = {**promises[0], "broken": list(broken)}
    untold = [part["unknown"]["promise"] for part in parts if "promise" in part["unknown"]]
    if untold:
        run["unknown"] = {**run["unknown"], "promise": untold[0]}
