"""Warm-up, batches and the stopping rule: from a loop to samples in order with their times."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Any

from gemmgrid.measure.invocation.loop import Loop, clock

STEADY = 0.03
"""The warm-up is steady when the medians of its middle and its last third differ by less."""
WINDOW = 5
"""Batches that such a third must have."""
WARMUP_PATIENCE = 4
"""The warm-up ends, steady or not, after this many times its planned length."""
SAMPLING_PATIENCE = 4
"""Sampling ends, precise or not, after this many times its planned length."""
PLATEAU = 0.95
"""The interval no longer narrows when it keeps this share of its width while samples double."""
LARGEST_BATCH = 1 << 20
CONSTANTS = 100
"""A batch lasts so many times what starting and fencing the device takes, …"""
LONGEST_BATCH_S = 0.02
"""… which is some ten microseconds: where this would not do, it is no fence that takes the time."""


@dataclass
class Warmup:
    seconds: float
    calls: int
    steady: bool
    inner: int
    """Calls in a batch from here on, chosen so that a batch is long against the clock."""
    last_ns: int
    """Time of the last batch, of so many calls."""

    def to_json(self) -> dict[str, Any]:
        return {"seconds": self.seconds, "calls": self.calls, "steady": self.steady}


@dataclass
class Samples:
    """What was timed: start (from the first sample's start) and length of each batch, in ns."""

    at_ns: list[int] = field(default_factory=list)
    elapsed_ns: list[int] = field(default_factory=list)
    device_ns: list[int] | None = None
    stop: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"at_ns": self.at_ns, "elapsed_ns": self.elapsed_ns, "device_ns": self.device_ns}


def warm_up(loop: Loop, settings: Mapping[str, Any], expires: Callable[[float], bool]) -> Warmup:
    """Run the call for `warmup_s` and until it is steady; find the batch length on the way.

    expires(seconds) says whether that many more seconds would leave the process's time budget.
    """
    planned = int(settings["warmup_s"] * 1e9)
    start, calls, inner = clock(), 0, 1
    longest = int(LONGEST_BATCH_S * 1e9)
    needed = 0 if expires(LONGEST_BATCH_S) else CONSTANTS * loop.constant_ns(longest)
    target = max(int(settings["batch_s"] * 1e9), needed if needed <= longest else 0)
    recent: list[float] = []
    while True:
        elapsed = loop.batch(inner)
        calls += inner
        spent = clock() - start
        if elapsed < target and inner < LARGEST_BATCH and not expires(2 * elapsed / 1e9):
            # Straight to the length that the last batch predicts, at most tenfold at a time.
            wanted = inner * target / max(elapsed, 1) * 1.2
            inner = min(max(inner + 1, int(min(wanted, inner * 10))), LARGEST_BATCH)
            recent.clear()
            continue
        recent.append(elapsed / inner)
        steady = _steady(recent)
        done = spent >= planned and (steady or spent >= WARMUP_PATIENCE * planned)
        if done or expires(elapsed / 1e9) or elapsed >= planned:
            return Warmup(spent / 1e9, calls, steady, inner, elapsed)


def take_samples(
    loop: Loop, inner: int, settings: Mapping[str, Any], expires: Callable[[float], bool]
) -> Samples:
    """Time batches until the stopping rule fires; `stop` names the condition that did.

    interval     enough samples and time, and the median's interval is as narrow as asked for
    plateau      enough samples and time, and more samples no longer narrow it
    time-limit   four times the planned time went by without either
    max-samples  as many samples as are kept
    budget       the next batch would leave the time budget of the process
    """
    samples = Samples(device_ns=None if loop.timer is None else [])
    planned = int(settings["sample_s"] * 1e9)
    widths: dict[int, float] = {}
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        origin = clock()
        total = 0
        while not samples.stop:
            at = clock() - origin
            elapsed, device = loop.device_batch(inner)
            samples.at_ns.append(at)
            samples.elapsed_ns.append(elapsed)
            if samples.device_ns is not None and device is not None:
                samples.device_ns.append(device)
            total += elapsed
            samples.stop = _stop(samples.elapsed_ns, total, planned, settings, widths, expires)
    finally:
        if collecting:
            gc.enable()
    return samples


def relative_interval(elapsed: list[int]) -> float:
    """Half-width over the median of the median's 95 % interval, 1.57 IQR / sqrt(n).

    Source: McGill, Tukey and Larsen, Variations of Box Plots, 1978. It steers the stopping rule
    only: samples of one process say little about the next process.
    """
    low, middle, high = quantiles(elapsed, n=4)
    return 1.57 * (high - low) / (len(elapsed) ** 0.5 * middle) if middle else 0.0


def _stop(
    elapsed: list[int],
    total: int,
    planned: int,
    settings: Mapping[str, Any],
    widths: dict[int, float],
    expires: Callable[[float], bool],
) -> str:
    count = len(elapsed)
    if count >= settings["min_samples"] and total >= planned and count >= 2:
        # Looked at only when the count has grown by a quarter: the rule must not eat the time.
        if not widths or count >= 1.25 * max(widths):
            widths[count] = relative_interval(elapsed)
            if widths[count] <= settings["interval"]:
                return "interval"
            half = [width for seen, width in widths.items() if seen <= count / 2]
            if half and widths[count] >= PLATEAU * half[-1]:
                return "plateau"
        if total >= SAMPLING_PATIENCE * planned:
            return "time-limit"
    if count >= settings["max_samples"]:
        return "max-samples"
    return "budget" if expires(elapsed[-1] / 1e9) else ""


def _steady(recent: list[float]) -> bool:
    third = len(recent) // 3
    if third < WINDOW:
        return False
    before, after = median(recent[third : 2 * third]), median(recent[-third:])
    return abs(after - before) <= STEADY * before
