"""Which clock times the calls, how fine it is, and what reading it costs."""

from __future__ import annotations

import time
from typing import Any

clock = time.perf_counter_ns
"""Monotonic, in nanoseconds; CLOCK_MONOTONIC on Linux, mach_absolute_time on macOS."""


def describe() -> dict[str, Any]:
    """Name, resolution (smallest step between two readings) and cost of a reading, in ns."""
    steps = []
    readings = 2000
    start = last = clock()
    for _ in range(readings):
        reading = clock()
        if reading > last:
            steps.append(reading - last)
        last = reading
    return {
        "name": "perf_counter_ns",
        "resolution_ns": min(steps, default=last - start),
        "overhead_ns": (last - start) // readings,
    }
