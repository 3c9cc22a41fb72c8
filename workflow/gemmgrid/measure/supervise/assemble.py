"""From the invocations of a run to its status, reason and flags."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any

from gemmgrid.measure.machine.identify import gpu_facts
from gemmgrid.measure.peaks.peaks import least_seconds, peak
from gemmgrid.measure.supervise.placement import set_aside
from gemmgrid.records.cell import Cell
from gemmgrid.records.context import digest
from gemmgrid.records.states import counted
from gemmgrid.records.statistics import by_round, mean, relative_half_width

WORST_FIRST = (
    "env-failed",
    "wrong",
    "implausible",
    "crashed",
    "oom",
    "timeout",
    "lost",
    "unsupported",
    "ok",
)
FEW = 5
"""Fewer processes than this are flagged: their interval holds the truth too seldom."""
NOISY = 0.05
"""A 95 % interval over processes wider than this share of the rate, each way, is noisy."""
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
        flags += _doubts(run, limits)
    run["flags"] = sorted(set(flags))


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
    width = relative_half_width(seconds_per_call(run))
    if width is not None and width > NOISY:
        doubts.append("noisy")
    if any(_bimodal(one["samples"]["elapsed_ns"]) for one in counted(run)):
        doubts.append("bimodal")
    if any(_drifts(one["samples"]["elapsed_ns"]) for one in counted(run)):
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


def _bimodal(elapsed: list[int]) -> bool:
    """Two groups at least 10 % apart, neither under a fifth of the samples.

    The largest gap between neighbours in the sorted middle splits them; the gap must be wider than
    both groups together, so a skewed tail does not count.
    """
    if len(elapsed) < 20:
        return False
    values = sorted(elapsed)
    fifth = len(values) // 5
    gaps = [(values[i + 1] - values[i], i) for i in range(fifth, len(values) - fifth - 1)]
    gap, at = max(gaps)
    low, high = values[: at + 1], values[at + 1 :]
    spread = (low[-1] - low[len(low) // 10]) + (high[-1 - len(high) // 10] - high[0])
    return median(high) > 1.1 * median(low) and gap > spread


def _drifts(elapsed: list[int]) -> bool:
    """The last third is 10 % off the first, and the middle third lies between the two."""
    third = len(elapsed) // 3
    if third < 5:
        return False
    first, middle, last = (
        median(elapsed[:third]),
        median(elapsed[third : 2 * third]),
        median(elapsed[-third:]),
    )
    return abs(last - first) > 0.1 * first and min(first, last) <= middle <= max(first, last)
