"""What the programs print: the machine and its state first, then lines, then verdicts."""

from __future__ import annotations

import os
from datetime import UTC, datetime

from gemmgrid.measure import machine

BUSY = 0.3
"""Load average of the last minute from which timings are rough; the program itself not counted."""


def header(title: str) -> None:
    """The title, where and when, and whether the machine was quiet at the start."""
    facts = machine.facts()
    cpu = facts.get("cpu") or {}
    load = os.getloadavg()[0]
    state = "quiet" if load < BUSY else f"NOT QUIET, load {load:.1f}: the figures are rough"
    print(title)
    print(
        f"{cpu.get('model') or 'CPU unknown'}, {cpu.get('cores') or '?'} cores, "
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {state}",
        flush=True,
    )


def verdict(name: str, measured: float, target: float, unit: str, more: str = "") -> str:
    """A line that states the target, what was measured, and whether that is within it."""
    state = "met" if measured <= target else "MISSED"
    return f"{name:<44} {measured:8.3f} {unit}   target ≤ {target:g} {unit}: {state}{more}"
