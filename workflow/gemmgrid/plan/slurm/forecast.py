"""What would be sent where: allocations, cells and node-hours, as `make slurm-plan` shows it."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gemmgrid.plan.config.machines import Machine
from gemmgrid.plan.jobs.blocks import Block
from gemmgrid.plan.slurm import resources

WIDTH = 100
SHORTEST = 8
"""A long name of a machine is cut to make the table fit, but not to less; below it is in full."""


@dataclass(frozen=True)
class Allocation:
    """One job that would be sent: its cells run one after the other on one node."""

    machine: str
    cells: int
    minutes: int
    cpus: int | None
    memory_mb: int | None
    partition: str | None = None
    constraint: str | None = None
    gres: str | None = None
    exclusive: bool = True

    @property
    def node_hours(self) -> float:
        """At most: the node is held until the time limit."""
        return self.minutes / 60


def allocations(
    blocks: Iterable[Block], machines: Mapping[str, Machine], settings: Mapping[str, Any]
) -> list[Allocation]:
    """What will be sent: each round of a block is an allocation of its own."""
    return [
        Allocation(
            machine=machine.name,
            cells=len(block.cells),
            minutes=len(block.cells) * resources.minutes(settings),
            cpus=machine.cpus,
            memory_mb=resources.block_memory_mb(block.cells, settings, machine),
            partition=machine.partition,
            constraint=machine.constraint,
            gres=machine.gres,
            exclusive=machine.exclusive,
        )
        for block in blocks
        for machine in [machines[block.machine]]
        for _ in block.rounds
    ]


def largest(of: Iterable[Allocation]) -> list[Allocation]:
    """One for each machine, that asks for as much as any of its allocations."""
    found: dict[str, Allocation] = {}
    for one in of:
        most = found.setdefault(one.machine, one)
        found[one.machine] = replace(
            one,
            cells=max(one.cells, most.cells),
            minutes=max(one.minutes, most.minutes),
            memory_mb=max(one.memory_mb or 0, most.memory_mb or 0),
        )
    return list(found.values())


def forecast(allocations: Sequence[Allocation], matching: Mapping[str, int] | None = None) -> str:
    """The plan as text of at most 100 columns, without a line break at its end.

    `matching` is the number of nodes that each machine's jobs can run on, where the cluster could
    be asked. Node-hours count whole nodes for the whole time limit: what the jobs may cost at most.
    """
    if not allocations:
        return "Nothing to send: every cell of every machine behind SLURM has been measured."
    machines: dict[str, list[Allocation]] = {}
    for one in allocations:
        machines.setdefault(one.machine, []).append(one)
    rows = [
        _row(name, group, None if matching is None else matching.get(name))
        for name, group in machines.items()
    ]
    total = [
        *("total", f"{len(allocations)}", f"{sum(one.cells for one in allocations)}"),
        *("", "", "", "", f"{_hours(allocations)}", ""),
    ]
    heads = [
        *("machine", "allocations", "cells", "each", "time limit", "CPUs", "memory"),
        *("node-hours", "nodes"),
    ]
    table = _table([heads, *rows, total], drop_last=matching is None)
    asks = [line for name, group in machines.items() for line in _asks(name, group)]
    return "\n".join([*table, "", *asks, "", *_footnote(matching is not None)])


def _row(name: str, group: Sequence[Allocation], nodes: int | None) -> list[str]:
    return [
        name,
        f"{len(group)}",
        f"{sum(one.cells for one in group)}",
        _span((one.cells for one in group), str),
        _span((one.minutes for one in group), _clock),
        _span((one.cpus for one in group), str),
        _span((one.memory_mb for one in group), _memory),
        _hours(group),
        "?" if nodes is None else f"{nodes}",
    ]


def _table(rows: list[list[str]], drop_last: bool) -> list[str]:
    """Rows as aligned lines: names to the left, numbers to the right, a rule above the total."""
    if drop_last:
        rows = [row[:-1] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    numbers = sum(width + 2 for width in widths[1:])
    widths[0] = min(widths[0], max(WIDTH - numbers, SHORTEST))
    lines = [
        "  ".join(
            text.rjust(width) if at else _cut(text, width).ljust(width)
            for at, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    lines.insert(-1, "-" * (widths[0] + numbers))
    return lines


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _asks(name: str, group: Sequence[Allocation]) -> list[str]:
    """What SLURM is asked for, once for each different request, cut into lines that fit."""
    asked = dict.fromkeys(_ask(one) for one in group)
    wrapped = textwrap.wrap(
        f"{name}: {' / '.join(asked)}",
        WIDTH,
        subsequent_indent="  ",
        break_on_hyphens=False,
    )
    return wrapped


def _ask(one: Allocation) -> str:
    parts = [f"partition {one.partition}" if one.partition else "the default partition"]
    parts += [f"constraint {one.constraint}"] if one.constraint else []
    parts += [f"gres {one.gres}"] if one.gres else []
    parts.append("the node alone" if one.exclusive else "a node shared with others")
    return ", ".join(parts)


def _footnote(site_known: bool) -> list[str]:
    text = (
        "each: cells of one allocation, measured one after the other. time limit: hours:minutes. "
        "node-hours: at most, as if every allocation held a node until its time limit."
    )
    if site_known:
        text += " nodes: how many of the cluster match."
    return textwrap.wrap(text, WIDTH)


def _span(values: Iterable[int | None], shown: Callable[[int], str]) -> str:
    """The value, or the smallest and the largest one; `?` where none is given."""
    known = sorted({value for value in values if value is not None})
    if not known:
        return "?"
    ends = dict.fromkeys((shown(known[0]), shown(known[-1])))
    return "–".join(ends)


def _hours(group: Iterable[Allocation]) -> str:
    return f"{sum(one.node_hours for one in group):,.1f}"


def _clock(minutes: int) -> str:
    return f"{minutes // 60}:{minutes % 60:02d}"


def _memory(megabytes: int) -> str:
    """SLURM's megabytes are 1024 · 1024 bytes, and so are the gigabytes here."""
    return f"{megabytes} MB" if megabytes < 10_000 else f"{megabytes / 1024:.0f} GB"
