"""What a process measures beside the samples, after them: one of a run is enough for most."""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import Any

from gemmgrid.measure.adapters.base import Adapter
from gemmgrid.measure.invocation import operands
from gemmgrid.measure.invocation.loop import compile_loop
from gemmgrid.measure.invocation.outcome import NO_TIME, Budget
from gemmgrid.measure.probe.probe import Probe
from gemmgrid.records.cell import Cell, Options

Document = dict[str, Any]

MEMORY_S = 0.5
"""Time that the probe of the memory may need; most of it goes to getting its pages."""
FIRST = "measured by the run's first process"
"""Why the others do not know it."""
PROBE_SIZE = 256
"""Largest dimension of the products that compare a dtype with float32."""
CALLS = 8
"""Calls that `_per_call` makes where one takes longer than its batch."""


def first_only(
    document: Document, job: Document, adapter: Adapter, cell: Cell, budget: Budget
) -> None:
    """Side measurements that one process of a run is enough for."""
    document["call_overhead_ns"] = document["against_float32"] = None
    if job["index"] != 0:
        for key in ("call_overhead_ns", "against_float32"):
            document["unknown"][key] = FIRST
        return
    call_s = median(document["samples"]["elapsed_ns"]) / document["inner"] / 1e9
    # First, for it tells of a slow path, where little of the budget is left.
    ratio, reason = _against_float32(adapter, cell, call_s, budget)
    document["against_float32"] = ratio
    if reason:
        document["unknown"]["against_float32"] = reason
    if budget.ends(0.5):
        document["unknown"]["call_overhead_ns"] = NO_TIME
    else:
        document["call_overhead_ns"] = _overhead(adapter, cell)


def _overhead(adapter: Adapter, cell: Cell) -> float:
    """Time of the same call on the smallest product: what Python and the dispatch cost, in ns."""
    small = replace(cell, shape=(2,) * len(cell.shape), options=_plain(cell))
    return _per_call(adapter, small, 300_000)


def _against_float32(
    adapter: Adapter, cell: Cell, call_s: float, budget: Budget
) -> tuple[float | None, str]:
    """How many times longer a product of at most 256 takes in this dtype than in float32.

    call_s   time of a call of the cell. Where the budget has no room for products that slow, its
             share stands for theirs: the answer takes no time then.
    """
    if cell.dtype == "float32":
        return None, "the cell is float32"
    shape = tuple(min(size, PROBE_SIZE) for size in cell.shape)
    if cell.routine != "gemm" or min(shape) < 64:
        return None, "compared for gemm of 64 and more only"
    same = replace(cell, shape=shape, options=_plain(cell))
    single = replace(same, dtype="float32")
    if adapter.unsupported(single):
        return None, "the library has no float32"
    single_ns = max(_per_call(adapter, single, 3_000_000), 1.0)
    share_s = call_s * same.flops / cell.flops
    if budget.ends(2 * CALLS * share_s):
        return 1e9 * share_s / single_ns, ""
    return _per_call(adapter, same, 3_000_000) / single_ns, ""


def _plain(cell: Cell) -> Options:
    """The options that keep the kind of call but not its size or placement."""
    options = cell.options
    kept = ("trans", "alpha", "beta", "alloc", "call", "mode")
    return Options(**{name: getattr(options, name) for name in kept})


def _per_call(adapter: Adapter, cell: Cell, batch_ns: int) -> float:
    """Median time of a call over five batches of at least `batch_ns`, in ns."""
    loop = compile_loop(adapter.prepare(cell, operands.make(cell, 0)))
    loop.batch(1)
    inner = 1
    while (elapsed := loop.batch(inner)) < batch_ns and inner < 1 << 16:
        inner = max(inner + 1, min(inner * 10, inner * batch_ns // max(elapsed, 1) + 1))
    return median(loop.batch(inner) for _ in range(5)) / inner


def probe_memory(probe: Probe, cell: Cell, job: Document, budget: Budget) -> None:
    """Last of all, because its arrays push everything else out of the caches."""
    if job["index"] and cell.routine == "gemm" and not cell.options.cold:
        probe.skip("memory", FIRST)
    elif budget.expires(MEMORY_S):
        probe.skip("memory", NO_TIME)
    else:
        probe.memory(job.get("cache_bytes"))
