"""Can the clock be believed: does twice the work take twice the time, and is nothing left running?

A missing fence, a lazy graph of which only the last product runs, or a call that returns before
the work is done all pass for speed. Each leaves a trace that these two tests look for.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any

from gemmgrid.measure.invocation.loop import Loop, clock

PAIRS = 5
"""Pairs of batches compared where the first is not clear, …"""
MOST_PAIRS = 20
"""… and so many where their median is too low, before longer batches are tried, …"""
LONGER = 4
"""… this many times as long: noise weighs less on them, and a missing fence shows as before."""
CLEAR = (1.7, 2.4)
"""A first pair in this range settles it: the ratio of a lie is about 1."""
RATIO_LOW = 1.4
"""A median below it: twice the work did not take about twice the time.

The true ratio is 2 - f, f the share of a batch that is one fence; batches are 1 ms at least, so f
stays under 0.1. The rest is room for noise. There is no upper bound: noise makes ratios large, and
no lie does.
"""
FETCHES = 10
"""Times that work may seem left over before it is believed."""
LEFTOVER = 0.3
"""A batch may leave this share of itself running behind its fence, of the fetch too, or 1 ms."""


def doubling(
    loop: Loop, inner: int, expires: Callable[[float], bool], batch_s: float = 0.0
) -> dict[str, Any]:
    """Batches of `inner` and of twice as many calls, in turn: the ratio of their times.

    batch_s   what a batch is known to take: none is begun where a pair would not fit
    Returns {"ratio": the median ratio or None, "inner", "ok", "reason"}.
    """
    ratios = [] if expires(3 * batch_s) else _ratios(loop, inner, expires)
    if ratios and median(ratios) < RATIO_LOW and not expires(0.1):
        inner *= LONGER
        ratios = _ratios(loop, inner, expires) or ratios
    if not ratios:
        reason = "twice the work would not fit in the time budget"
        return {"ratio": None, "inner": inner, "ok": True, "reason": reason}
    ratio = median(ratios)
    ok = ratio >= RATIO_LOW
    why = None if ok else f"twice the work took only {ratio:.2f} times as long"
    return {"ratio": ratio, "inner": inner, "ok": ok, "reason": why}


def _ratios(loop: Loop, inner: int, expires: Callable[[float], bool]) -> list[float]:
    """Ratios of pairs: one if it is clear, otherwise enough for a median to be trusted."""
    ratios: list[float] = []
    while len(ratios) < PAIRS or (median(ratios) < RATIO_LOW and len(ratios) < MOST_PAIRS):
        single = loop.batch(inner)
        if expires(2 * single / 1e9):
            break
        double = loop.batch(2 * inner)
        ratios.append(double / max(single, 1))
        settled = len(ratios) == 1 and CLEAR[0] < ratios[0] < CLEAR[1]
        if settled or expires(3 * double / 1e9):
            break
    return ratios


def leftover(
    loop: Loop, inner: int, fetch: Callable[[], object], expires: Callable[[float], bool]
) -> dict[str, Any]:
    """Fetch the result right after a batch, and once more: was work still running the first time?

    One quiet pass is enough: noise makes a wait, never takes one away.
    Returns {"seconds": what the first fetch waited beyond the second, "ok", "reason"}.
    """
    seconds, reason = 0.0, None
    for _ in range(FETCHES):
        elapsed = loop.batch(inner)
        start = clock()
        fetch()
        between = clock()
        fetch()
        again = clock() - between
        wait = between - start - again
        seconds = max(wait, 0) / 1e9
        if wait <= max(LEFTOVER * elapsed, LEFTOVER * again, 1e6):
            return {"seconds": seconds, "ok": True, "reason": None}
        reason = (
            f"{wait / 1e6:.1f} ms of work was still running behind the fence of a batch that took "
            f"{elapsed / 1e6:.1f} ms"
        )
        if expires(2 * elapsed / 1e9):
            break
    return {"seconds": seconds, "ok": False, "reason": reason}
