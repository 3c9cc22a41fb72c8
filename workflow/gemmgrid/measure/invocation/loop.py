"""From a statement to a timed loop: what is timed is the statement itself, without indirection.

As in the standard library's `timeit`, the statement becomes the body of a compiled loop with its
names as locals; calling a Python function for each product instead would add about 140 ns to it.
Statements are written by the adapters, never by a config.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle, islice, repeat
from typing import TYPE_CHECKING, Any

from gemmgrid.measure.invocation.clock import clock

if TYPE_CHECKING:
    from gemmgrid.measure.adapters.base import Call, DeviceTimer

_WARM = """\
def batch(inner, {parameters}):
    start = clock_()
    for _ in repeat_(None, inner):
{statement}
    {fence}
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
    {fence}
    stop = clock_()
{stores}
    return stop - start
"""


@dataclass
class Loop:
    """A call ready to be timed in batches."""

    batch: Callable[[int], int]
    """Runs that many calls and the fence; elapsed nanoseconds."""
    names: dict[str, Any]
    """The statement's names, with the values that the last call gave them."""
    timer: DeviceTimer | None

    def device_batch(self, inner: int) -> tuple[int, int | None]:
        """One batch: elapsed ns on the host, and on the device where it has a clock of its own."""
        if self.timer is None:
            return self.batch(inner), None
        self.timer.start()
        elapsed = self.batch(inner)
        return elapsed, self.timer.stop()


def compile_loop(call: Call) -> Loop:
    """The loop of a call; operands rotate through `call.sets` where there are several."""
    names = dict(call.names)
    sets = call.sets or []
    rotated = sorted({name for chosen in sets for name in chosen})
    namespace: dict[str, Any] = {
        "clock_": clock,
        "repeat_": repeat,
        "islice_": islice,
        "names_": names,
        "sets_": cycle([tuple(chosen[name] for name in rotated) for chosen in sets]),
        **{f"{name}_": value for name, value in names.items()},
    }
    source = (_COLD if sets else _WARM).format(
        parameters=", ".join(f"{name}={name}_" for name in names) or "*",
        statement="\n".join(f"        {line}" for line in call.statement.splitlines()),
        stores="\n".join(
            f"    names_[{name!r}] = {name}" for name in sorted(call.assigned | set(rotated))
        ),
        rotated=", ".join(rotated) + ",",
        fence=call.fence or "pass",
    )
    exec(compile(source, f"<{call.statement}>", "exec"), namespace)
    timer = call.device_timer() if call.device_timer else None
    return Loop(namespace["batch"], names, timer)
