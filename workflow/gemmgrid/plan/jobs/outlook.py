"""What a start is about to measure, in one line."""

from __future__ import annotations

from gemmgrid.plan.plan import Plan
from gemmgrid.records.text import count, spell_seconds

BESIDE_S = 0.65
"""Start, import, verification and probes of a process of a small cell."""
EVIDENCE_S = 0.4
LONGER = 2.0
"""Warm-up and samples take up to four times as long as they are meant to, and mostly twice."""


def outlook(plan: Plan, cells: int) -> str:
    """How many of the plan's cells are to be measured, and about how long that takes."""
    machines = ", ".join(sorted({cell.machine for cell in plan.cells}))
    start = f"gemmgrid: study {plan.study} on {machines}: "
    if not cells:
        all_ = count("cell", len(plan.cells))
        return f"{start}nothing to measure, there is a run of every cell; -F measures {all_} again"
    settings, rounds = plan.settings, plan.settings["rounds"]
    process = BESIDE_S + LONGER * (settings["warmup_s"] + settings["sample_s"])
    each = settings["invocations"] * process + EVIDENCE_S * settings["evidence"]
    return (
        f"{start}{cells} of {count('cell', len(plan.cells))} to measure"
        f"{f' in {rounds} rounds' if rounds > 1 else ''}, roughly {spell_seconds(cells * each)}; "
        f"{len(plan.skipped)} left out with a reason"
    )
