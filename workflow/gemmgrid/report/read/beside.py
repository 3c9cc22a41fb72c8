"""What stands beside a cell's rate: the state of the CPUs, the ceilings, operations a cycle."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any

from gemmgrid.records.ceilings import cache_bytes, ceilings, moved_bytes
from gemmgrid.records.cell import Cell
from gemmgrid.records.states import counted, state_of
from gemmgrid.records.statistics import mean
from gemmgrid.report.read.fields import Fields

COLUMNS = (
    *("state", "far", "ceiling", "ceiling_share", "arithmetic_gflops", "memory_gbytes_s"),
    "flop_per_cycle",
)
ENOUGH = 3
"""Processes of another state from which on its time is shown beside the cell's."""
PLACED_APART = ("far", "farther")
"""The states that have a time: in the others, the CPUs moved or were interrupted meanwhile."""

Run = Mapping[str, Any]


def columns(
    run: Run, cell: Cell, values: Mapping[str, Any], machine: Mapping[str, Any] | None
) -> dict[str, Any]:
    """COLUMNS of a run that is ok, whose `gflops` and `time_s` are in `values`.

    state               in which the processes ran that count: near, far or farther
    far                 the time in other states, as `far: 1.20 × the time`
    ceiling             which of the measured ceilings is the lower: arithmetic or memory
    ceiling_share       the rate as a share of it (roofline)
    arithmetic_gflops   of independent multiply-adds on the cell's CPUs
    memory_gbytes_s     10⁹ bytes a second, what these CPUs move past the caches
    flop_per_cycle      of one thread; of the whole GPU on a GPU
    """
    borders = run.get("states") or []
    names = [name for one in counted(run) if (name := state_of(one, borders))]
    return {
        "state": names[0] if names else None,
        "far": _others(run, values["time_s"]),
        **_ceilings(run, cell, values["time_s"], _caches(machine)),
        "flop_per_cycle": _per_cycle(run, cell, values["gflops"]),
    }


def _caches(machine: Mapping[str, Any] | None) -> int | None:
    """Size of the caches, from machine.json, which may come from anyone."""
    keys = ("size_bytes", "count", "level")
    listed = Fields(machine or {}).parts("cpu.caches")
    return cache_bytes(
        {"cpu": {"caches": [{key: one.integer(key) for key in keys} for one in listed]}}
    )


def _others(run: Run, time_s: float) -> str | None:
    times: dict[str, list[float]] = {}
    for one in run["invocations"]:
        elapsed = (one.get("samples") or {}).get("elapsed_ns")
        if elapsed and one.get("status") == "ok" and one.get("aside") in PLACED_APART:
            seconds = median(elapsed) / (one.get("inner") or 1) / 1e9
            times.setdefault(one["aside"], []).append(seconds)
    told = [
        f"{name}: {mean(found) / time_s:.2f} × the time"
        for name, found in sorted(times.items())
        if len(found) >= ENOUGH
    ]
    return "; ".join(told) or None


def _ceilings(run: Run, cell: Cell, time_s: float, caches: int | None) -> dict[str, Any]:
    roof = ceilings(run)
    arithmetic = cell.flops / roof.flops if roof.flops else 0.0
    moved = moved_bytes(cell, caches)
    memory = moved / roof.bytes_per_s if moved and roof.bytes_per_s else 0.0
    # What a vector product reaches in caches, neither loop shows.
    bound = 0.0 if cell.routine != "gemm" and not memory else max(arithmetic, memory)
    return {
        "ceiling": ("memory" if memory > arithmetic else "arithmetic") if bound else None,
        "ceiling_share": bound / time_s if bound else None,
        "arithmetic_gflops": roof.flops / 1e9 if roof.flops else None,
        "memory_gbytes_s": roof.bytes_per_s / 1e9 if roof.bytes_per_s else None,
    }


def _per_cycle(run: Run, cell: Cell, gflops: float) -> float | None:
    clocks = []
    for one in counted(run):
        around = Fields(one)
        cycles, clock_s = (around.number(f"counters.{key}") for key in ("cycles", "task_clock_s"))
        if run["device"] == "cpu" and cycles and clock_s:
            clocks.append(cycles / clock_s / 1e6)
        elif run["device"] == "cpu":
            # The highest: of CPUs that idle, the clock says nothing.
            moments = ("conditions.before.cpu_mhz", "conditions.after.cpu_mhz")
            seen = [clock for when in moments for clock in around.sequence(when) if clock]
            clocks += [max(seen)] if seen else []
        else:
            during = around.parts("conditions.during")
            clocks += [clock for moment in during if (clock := moment.number("sm_mhz"))]
    threads = cell.threads if run["device"] == "cpu" else 1
    return gflops * 1e3 / (median(clocks) * threads) if clocks else None
