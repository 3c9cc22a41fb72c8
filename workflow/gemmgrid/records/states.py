"""States of a machine: whether the CPUs that work together were near each other, far, or disturbed.

The time of a cache line from one CPU to another and back (a trip) tells them apart, and on a
virtual machine nothing else does. What near and far are differs from machine to machine, so the
borders come from the trips that the machine has shown, with as many CPUs, and from no constant.

Trips of one state lie together on a logarithmic scale (about 80 to 138 ns where this was found),
those of another a factor of two and more away (371 to 427 ns), a few that saw a change in between.
So the density of the logarithms is estimated (Gaussian kernel), and cut in each valley that is
less than a quarter as high as the lower of its two sides. Unlike the widest gap, a valley is not
hidden by a few values in it; unlike a fit of normal distributions, it needs no number of states,
and works from the first five trips on: two values are told apart from a factor of 2.1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median_low
from typing import Any

KERNEL = math.log(1.2)
"""Standard deviation of the kernel: what one placement's trips differ by."""
VALLEY = 0.25
"""Height of a valley, as a share of the lower side, below which it is a border."""
LEAST_SHARE = 0.05
"""Share of the trips that makes a state; fewer are disturbed, whatever their time."""
HARDWARE = 20.0
"""No placement's trip is this many times that of the best: then software is in between."""
REMEMBERED = 500
"""The latest trips count: the host may have moved the machine to other hardware."""
ORDER = ("near", "far", "farther", "changed", "disturbed")
"""Best first. `changed` is a process whose probes before and after show two states."""

Borders = list[dict[str, Any]]
"""{"name", "from_ns", "to_ns", "count"}: what a run carries as `states`."""


def trip_ns(half: Mapping[str, Any] | None) -> float | None:
    """The trip of a probe's `before` or `after`: the geometric mean over pairs of CPUs.

    Of each pair's repetitions the median, the lower of two. None where nothing was measured, as
    with one thread.
    """
    middles = [median_low(pair["ns"]) for pair in (half or {}).get("trips", ()) if pair["ns"]]
    return math.exp(fmean(map(math.log, middles))) if middles and min(middles) > 0 else None


def trips_of(invocation: Mapping[str, Any]) -> list[float]:
    """The trips that a process saw: before its samples and after."""
    probe = invocation.get("probe") or {}
    found = (trip_ns(probe.get(when)) for when in ("before", "after"))
    return [trip for trip in found if trip is not None]


def states(trips: Sequence[float]) -> Borders:
    """The states that these trips (ns, in the order of time) fall into, best first."""
    logs = sorted(math.log(trip) for trip in trips[-REMEMBERED:])
    if not logs:
        return []
    step = KERNEL / 4
    grid = [logs[0] + i * step for i in range(int((logs[-1] - logs[0]) / step) + 2)]
    density = [sum(math.exp(-(((x - y) / KERNEL) ** 2) / 2) for y in logs) for x in grid]
    cuts = [-math.inf, *(grid[i] for i in _valleys(density, 0, len(grid))), math.inf]
    found: Borders = []
    best = 0.0
    for low, high in pairwise(cuts):
        inside = [x for x in logs if low <= x < high]
        if not inside or len(inside) < LEAST_SHARE * len(logs):
            continue
        middle = median_low(inside)
        best = middle if not found else best
        if middle > best + math.log(HARDWARE):
            continue
        found.append(
            {
                "name": ORDER[min(len(found), 2)],
                "from_ns": round(math.exp(inside[0]), 1),
                "to_ns": round(math.exp(inside[-1]), 1),
                "count": len(inside),
            }
        )
    return found


def _valleys(density: Sequence[float], start: int, end: int) -> list[int]:
    """Indices of the borders between `start` and `end`, in order."""
    best, at = VALLEY, None
    for i in range(start + 1, end - 1):
        if density[i - 1] >= density[i] <= density[i + 1]:
            ratio = density[i] / min(max(density[start:i]), max(density[i + 1 : end]))
            if ratio < best:
                best, at = ratio, i
    if at is None:
        return []
    return [*_valleys(density, start, at), at, *_valleys(density, at + 1, end)]


def name_of(trip: float, borders: Borders) -> str:
    """The state that a trip belongs to: the nearest, unless it lies too far above or below it."""
    if not borders:
        return ORDER[0]
    distances = [max(state["from_ns"] / trip, trip / state["to_ns"], 1.0) for state in borders]
    nearest = min(range(len(borders)), key=distances.__getitem__)
    # Within the kernel's reach of trips that were seen: two of its deviations.
    close = distances[nearest] <= math.exp(2 * KERNEL)
    if close or (nearest == 0 and trip < borders[0]["from_ns"]):
        return str(borders[nearest]["name"])
    return "disturbed"


def state_of(invocation: Mapping[str, Any], borders: Borders) -> str | None:
    """The state that a process ran in; None where its probe says nothing."""
    names = {name_of(trip, borders) for trip in trips_of(invocation)}
    return "changed" if len(names) > 1 else next(iter(names), None)


@dataclass(frozen=True)
class Sorted:
    """The processes of a run by state: those that make up its number, and the others' states."""

    counted: list[dict[str, Any]]
    aside: list[tuple[dict[str, Any], str]]
    best_seen: str | None
    """The best state that a process ran in; None where no process tells its state."""


def sort(invocations: Sequence[dict[str, Any]], borders: Borders) -> Sorted:
    """Which processes count: those of the best state that one ran in, and those without a state."""
    named = [(one, state_of(one, borders)) for one in invocations]
    seen = [name for _, name in named if name is not None]
    best = min(seen, key=ORDER.index, default=None)
    return Sorted(
        [one for one, name in named if name in (None, best)],
        [(one, name) for one, name in named if name is not None and name != best],
        best,
    )


def counted(run: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The processes of a run that make up its number: all that are not set aside."""
    return [one for one in run["invocations"] if not one.get("aside")]
