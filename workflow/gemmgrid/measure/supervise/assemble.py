"""From the invocations of a run to its status, reason and flags."""

from __future__ import annotations

import re
from collections.abc import Mapping
from statistics import median
from typing import Any

from gemmgrid.measure.peaks.peaks import least_seconds, peak
from gemmgrid.measure.supervise.placement import set_aside
from gemmgrid.records.ceilings import cache_bytes, impossible
from gemmgrid.records.cell import Cell
from gemmgrid.records.context import digest
from gemmgrid.records.identity import gpu_facts
from gemmgrid.records.sample_shape import has_drift, is_bimodal
from gemmgrid.records.states import counted
from gemmgrid.records.statistics import by_round, interval, is_wide, mean

WORST_FIRST = (
    "env-failed",
    "wrong",
    "implausible",
    "crashed",
    "oom",
    "timeout",
    "lost",
    "infeasible",
    "unsupported",
    "ok",
)
FEW = 5
"""Fewer processes than this are flagged: their interval holds the truth too seldom."""
DOUBTS = frozenset(
    {"few-invocations", "one-round", "noisy", "bimodal", "drift", "no-blas", "slow-path"}
    | {"inconsistent-evidence", "other-state"}
)
"""Flags of a run as a whole: what a part of it was flagged with says nothing of the whole."""
SLOW_SHARE = 0.04
"""A product of 256 and more below this share of the device's peak takes a slow path."""


def conclude(run: dict[str, Any], facts: Mapping[str, Any]) -> None:
    """Set the run's status, reason, failure and flags from its invocations and the machine."""
    set_aside(run)
    invocations = run["invocations"]
    flags = [flag for invocation in counted(run) for flag in invocation.get("flags", [])]
    flags += run["flags"]
    if _count_once(invocations):
        flags.append("warned")
    if invocations:
        worst = min(invocations, key=lambda one: WORST_FIRST.index(one["status"]))
        run["status"], run["reason"] = worst["status"], worst["reason"]
        run["failure"] = worst.pop("failure", None) if worst["status"] != "ok" else None
        run["expression"] = _first(invocations, "expression")
        run["library"] = (_first(invocations, "identity") or {}).get("library")
    if run["status"] == "ok":
        cell = run["cell"]
        named = {one["effective_precision"] for one in invocations}
        precision = named.pop() if len(named) == 1 else None
        limits = peak(
            facts, run["device"], cell["dtype"], cell["threads"], precision, _used_gpu(run, facts)
        )
        described = Cell.from_json(cell)
        least = least_seconds(limits, described.flops, described.operand_bytes)
        seconds = mean(seconds_per_call(run))
        if least and seconds < least:
            run["status"] = "implausible"
            run["reason"] = (
                f"{seconds:.3g} s a call, and no such device takes less than {least:.3g} s "
                f"({limits['source']})"
            )
        elif problem := impossible(run, seconds, cache_bytes(facts)):
            run["status"], run["reason"] = "implausible", problem
        flags += _doubts(run, limits)
    run["flags"] = sorted(set(flags))


def _count_once(invocations: list[dict[str, Any]]) -> bool:
    """Leave each warning with the first process that gave it; whether there is any.

    Numbers apart: times and process ids make no other warning.
    """
    seen: set[str] = set()
    for one in invocations:
        kept = []
        for line in one.pop("warnings", []):
            if (kind := re.sub(r"\d+", "0", line)) not in seen:
                seen.add(kind)
                kept.append(line)
        if kept:
            one["warnings"] = kept
    return bool(seen)


def _used_gpu(run: Mapping[str, Any], facts: Mapping[str, Any]) -> int:
    """Which of the machine's GPUs the run used: one of the kind that it names."""
    kind = (run.get("gpu") or {}).get("id")
    ids = [digest(gpu_facts(one)) for one in facts.get("gpus") or []]
    return ids.index(kind) if kind in ids else 0 if kind is None else -1


def _first(invocations: list[dict[str, Any]], key: str) -> Any:
    return next((one[key] for one in invocations if one.get(key)), None)


def seconds_per_call(run: Mapping[str, Any]) -> list[float]:
    """What the interval is over, in seconds: a time for each round, or, of one round, for each
    invocation that has samples (the median of its calls)."""
    taken = _sampled(run)
    medians = [median(one["samples"]["elapsed_ns"]) / one["inner"] / 1e9 for one in taken]
    return by_round(medians, [one.get("round") for one in taken])


def _sampled(run: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The invocations that count and have samples."""
    return [one for one in counted(run) if (one.get("samples") or {}).get("elapsed_ns")]


def rate_of(run: Mapping[str, Any]) -> float:
    """Floating-point operations per second, from the mean over rounds or invocations."""
    return Cell.from_json(run["cell"]).flops / mean(seconds_per_call(run))


def _doubts(run: Mapping[str, Any], limits: Mapping[str, Any]) -> list[str]:
    doubts = []
    if len(_sampled(run)) < FEW:
        doubts.append("few-invocations")
    if len({one["round"] for one in counted(run)}) < 2:
        doubts.append("one-round")
    if is_wide(interval(seconds_per_call(run))):
        doubts.append("noisy")
    calls = [[ns / one["inner"] for ns in one["samples"]["elapsed_ns"]] for one in _sampled(run)]
    if is_bimodal([value for samples in calls for value in samples]):
        doubts.append("bimodal")
    if has_drift(calls):
        doubts.append("drift")
    evidence = run.get("evidence") or {}
    if evidence.get("no_blas"):
        doubts.append("no-blas")
    if evidence.get("inconsistent"):
        doubts.append("inconsistent-evidence")
    large = run["cell"]["routine"] == "gemm" and min(run["cell"]["shape"]) >= 256
    if large and limits["flops"] and rate_of(run) < SLOW_SHARE * limits["flops"]:
        doubts.append("slow-path")
    return doubts
