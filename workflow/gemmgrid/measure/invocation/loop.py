"""From a statement to a timed loop: what is timed is the statement itself, without indirection.

As in the standard library's `timeit`, the statement becomes the body of a compiled loop with its
names as locals; calling a Python function for each product instead would add about 140 ns to it.
Statements are written by the adapters, never by a config.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle, islice, repeat
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gemmgrid.measure.adapters.base import Call, DeviceTimer

clock = time.perf_counter_ns
"""Monotonic, in nanoseconds; CLOCK_MONOTONIC on Linux, mach_absolute_time on macOS."""

_WARM = """\
def batch(inner, {parameters}):
    start = clock_()
    for _ in repeat_(None, inner):
{statement}
{mark}    {fence}
    stop = clock_()
{stores}
    return stop - start
"""
_COLD = """\
def batch(inner, {parameters}):
    chosen = islice_(sets_, inner)
    start = clock_()
    for {rotated} in chosen:
{statement}
{mark}    {fence}
    stop = clock_()
{stores}
    return stop - start
"""
TRIES = 5


@dataclass
class Loop:
    """A call ready to be timed in batches."""

    batch: Callable[[int], int]
    """Runs that many calls and the fence; elapsed nanoseconds."""
    names: dict[str, Any]
    """The statement's names, with the values that the last call gave them."""
    timer: DeviceTimer | None
    fenced: bool = False
    """Whether a batch ends by waiting for a device."""

    def constant_ns(self, longest_ns: int) -> int:
        """What a batch takes beside its calls: to start the device and to wait for it; 0 without.

        Twice one call less two calls, the quickest of some tries each. 0 also where one call takes
        `longest_ns`: it is long against any fence.
        """
        if not self.fenced or self.batch(1) >= longest_ns:
            return 0
        pairs = [(self.batch(1), self.batch(2)) for _ in range(TRIES)]
        one, two = map(min, zip(*pairs, strict=True))
        return max(0, 2 * one - two)

    def device_batch(self, inner: int) -> tuple[int, int | None]:
        """One batch: elapsed ns on the host, and on the device where it has a clock of its own."""
        if self.timer is None:
            return self.batch(inner), None
        self.timer.start()
        elapsed = self.batch(inner)
        return elapsed, self.timer.read()


def compile_loop(call: Call) -> Loop:
    """The loop of a call; operands rotate through `call.sets` where there are several."""
    names = dict(call.names)
    timer = call.device_timer() if call.device_timer else None
    sets = call.sets or []
    rotated = sorted({name for chosen in sets for name in chosen})
    namespace: dict[str, Any] = {
        "clock_": clock,
        "repeat_": repeat,
        "islice_": islice,
        "mark_": timer.stop if timer else None,
        "names_": names,
        "sets_": cycle([tuple(chosen[name] for name in rotated) for chosen in sets]),
        **{f"{name}_": value for name, value in names.items()},
    }
    # The device's clock stops before the host waits: behind the fence it would count the waiting.
    source = (_COLD if sets else _WARM).format(
        parameters=", ".join(f"{name}={name}_" for name in names) or "*",
        statement="\n".join(f"        {line}" for line in call.statement.splitlines()),
        stores="\n".join(
            f"    names_[{name!r}] = {name}" for name in sorted(call.assigned | set(rotated))
        ),
        rotated=", ".join(rotated) + ",",
        mark="    mark_()\n" if timer else "",
        fence=call.fence or "pass",
    )
    exec(compile(source, f"<{call.statement}>", "exec"), namespace)
    return Loop(namespace["batch"], names, timer, call.fence is not None)


def describe_clock() -> dict[str, Any]:
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
