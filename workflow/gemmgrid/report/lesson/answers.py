"""The answers of the lesson's studies, from their cells: sentences, and the table behind them.

A sentence is made only of numbers that were measured; where the cells that it needs are missing, it
says which, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gemmgrid.records.cell import Cell
from gemmgrid.records.files import write_atomically
from gemmgrid.records.text import count, number
from gemmgrid.report.read.collect import Collection
from gemmgrid.report.read.coverage import coverage
from gemmgrid.report.read.evidence import SEEN
from gemmgrid.report.read.hardware import bytes_text
from gemmgrid.report.read.rows import Row, reading_order

EXERCISE = 4096
"""The lesson's exercise: a 4096³ product in float32."""
DOUBTS = frozenset({"loaded", "drift", "bimodal", "other-state"})
"""Flags under which no setting is called better than another."""
SHARES = (0.01, 0.001)
"""Shares of a call that Python may take: the lesson says about 0.1 % at 4096³."""


@dataclass
class Answer:
    """What a study found: sentences, and the rows that they rest on."""

    told: list[str]
    head: tuple[str, ...] = ()
    rows: Sequence[tuple[str, ...]] = ()

    def lines(self) -> list[str]:
        """For the terminal: the sentences, then the table in columns."""
        table = [self.head, *self.rows] if self.rows else []
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        padded = (
            "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True))
            for row in table
        )
        return [*self.told, *(line.rstrip() for line in padded)]

    def markdown(self) -> str:
        """To paste: the table as GitHub shows it, then the sentences."""
        lines = []
        if self.rows:
            rule = ("---",) * len(self.head)
            table = [self.head, rule, *self.rows]
            lines = [f"| {' | '.join(text.replace('|', '¦') for text in row)} |" for row in table]
        return "\n".join([*lines, "", *(f"{sentence}  " for sentence in self.told)]) + "\n"


def answer(collection: Collection) -> Answer | None:
    """The answer of the present study; None where it is not one of the lesson's."""
    make = ANSWERS.get(collection.plan.study or "") if collection.plan else None
    if make is None:
        return None
    rows = sorted(coverage(collection).rows, key=reading_order)
    measured = [row for row in rows if row.comparable]
    if not measured:
        return Answer(["Nothing is measured yet, so there is no answer."])
    found = make(measured)
    doubtful = sum(not DOUBTS.isdisjoint(row.flags) for row in measured)
    if doubtful:
        found.told.append(
            f"{doubtful} of {count('cell', len(measured))} were measured on a machine that was not "
            f"still (flags {', '.join(sorted(DOUBTS))}): their rates may be too low."
        )
    return found


def write(collection: Collection, folder: Path) -> None:
    """`<study>.md` in the folder, where the study has an answer."""
    found = answer(collection)
    if found and collection.plan:
        write_atomically(folder / f"{collection.plan.study}.md", found.markdown().encode())


def exercise(rows: Sequence[Row]) -> Answer:
    """Expression, routine seen, TFLOP/s; a slow path from a smaller product."""
    chosen = [_largest(group) for group in _grouped(rows, "machine", "backend").values()]
    chosen.sort(key=lambda row: -row["gflops"])
    told, lines = [], []
    for row in chosen:
        size = "×".join(str(row[axis]) for axis in "mnk")
        if row["n"] != EXERCISE:
            times = (EXERCISE**3) / (row["m"] * row["n"] * row["k"])
            told.append(
                f"{row['backend']} is estimated from {size}: at that rate a {EXERCISE}³ product "
                f"would take {number(row['time_s'] * times, 2)} s."
            )
            size += " (estimate)"
        lines.append(
            (
                *(row["backend"], f"`{row['expression']}`", _seen(row, "routine")),
                *(_seen(row, "kernel"), number(row["gflops"] / 1000, 3), size),
            )
        )
    fastest, slowest = chosen[0], chosen[-1]
    if len(chosen) > 1:
        ratio = number(fastest["gflops"] / slowest["gflops"], 3)
        told.insert(0, f"{fastest['backend']} is fastest, {ratio} times {slowest['backend']}.")
    return Answer(told, ("backend", "expression", "routine", "kernel", "TFLOP/s", "product"), lines)


def levels(rows: Sequence[Row]) -> Answer:
    """GFLOP/s and GB/s of each routine on its largest operands, and what bounds it."""
    told, lines = [], []
    for (backend, dtype), group in _grouped(rows, "backend", "dtype").items():
        best = {}
        for routine, alike in _grouped(group, "routine").items():
            row = best[routine[0]] = max(alike, key=lambda row: _cell(row).operand_bytes)
            traffic = _cell(row).operand_bytes / row["time_s"] / 1e9
            share = row["ceiling_share"]
            of = f"{100 * share:.0f} % of {row['ceiling']}" if share else "no ceiling measured"
            lines.append(
                (backend, _cell(row).name, number(row["gflops"], 3), number(traffic, 3), of)
            )
        if {"dot", "gemm"} <= set(best):
            ratio = number(best["gemm"]["gflops"] / best["dot"]["gflops"], 2)
            told.append(f"{backend} {dtype}: gemm computes {ratio} times as fast as dot.")
    return Answer(told, ("backend", "cell", "GFLOP/s", "GB/s", "ceiling"), lines)


def overhead(rows: Sequence[Row]) -> Answer:
    """The fixed cost of a call, and the sizes from which it is below 1 % and 0.1 %."""
    told, lines = [], []
    for (backend, way), group in _grouped(rows, "backend", "options").items():
        known = [row for row in group if row["call_overhead_ns"] and row["k"]]
        if not known:
            continue
        fixed = min(row["call_overhead_ns"] for row in known) / 1e9
        share = {row["n"]: fixed / row["time_s"] for row in known}
        below = [
            next((str(size) for size in sorted(share) if share[size] < limit), "none measured")
            for limit in SHARES
        ]
        most = max(share)
        name = f"{backend} {way}".strip()
        lines.append(
            (name, f"{fixed * 1e6:.2f}", *below, f"{most}: {number(100 * share[most], 2)} %")
        )
    if lines:
        told.append(
            "The fixed cost is the time of the smallest product by the same call: Python, the "
            "library's own checks and the way into BLAS together, an upper bound on Python's share."
        )
    head = ("backend, call", "µs a call", "n below 1 %", "n below 0.1 %", "share at the largest n")
    return Answer(told, head, lines)


def small_calls(rows: Sequence[Row]) -> Answer:
    """Time a product, alone and in a stack, by mode and way of writing."""
    told, lines = [], []
    for (backend, size), group in _grouped(rows, "backend", "n").items():
        each = {
            row["options"] or "plain": row["time_s"] / _cell(row).options.batch for row in group
        }
        lines += [
            (backend, str(size), way, number(1e6 * seconds, 3)) for way, seconds in each.items()
        ]
        stacked = [name for name in each if name.startswith("b")]
        if "plain" in each and stacked:
            best = min(stacked, key=each.__getitem__)
            ratio = each["plain"] / each[best]
            word = "quicker" if ratio > 1 else "slower"
            told.append(
                f"{backend} {size}³: a product of a stack ({best}) is "
                f"{number(max(ratio, 1 / ratio), 2)} times {word} than a call of its own."
            )
    return Answer(told, ("backend", "n", "way", "µs a product"), lines)


def direct(rows: Sequence[Row]) -> Answer:
    """scipy.linalg.blas against A @ B: time, copies and results of each call."""
    lines = [
        (
            *(row["backend"], _cell(row).name, f"`{row['expression']}`"),
            *(number(1e6 * row["time_s"], 3), _copies(row)),
        )
        for row in rows
    ]
    told = []
    for key, group in _grouped(rows, "dtype", "n").items():
        operators = [row["time_s"] for row in group if row["options"] == "operator"]
        called = [
            row["time_s"] for row in group if row["adapter"] == "scipy" and not row["options"]
        ]
        if operators and called:
            ratio = number(called[0] / operators[0], 2)
            told.append(f"{key[0]} {key[1]}³: scipy.linalg.blas takes {ratio} times A @ B's time.")
    return Answer(told, ("backend", "cell", "statement", "µs", "copies seen"), lines)


def threads(rows: Sequence[Row]) -> Answer:
    """Rate by threads, and how many of them worked."""
    told, lines = [], []
    for (backend, dtype, size), group in _grouped(rows, "backend", "dtype", "n").items():
        by = {row["threads"]: row for row in group}
        for asked, row in sorted(by.items()):
            lines.append(
                (
                    *(backend, dtype, f"{size}³", str(asked)),
                    *(str(row["threads_seen"] or "–"), number(row["gflops"], 3)),
                )
            )
        if len(by) > 1:
            least, most = min(by), max(by)
            ratio = number(by[most]["gflops"] / by[least]["gflops"], 3)
            told.append(f"{backend} {dtype} {size}³: {most} threads give {ratio} times {least}.")
    return Answer(told, ("backend", "dtype", "product", "threads", "worked", "GFLOP/s"), lines)


def precision(rows: Sequence[Row]) -> Answer:
    """Rate and error of each dtype beside float32's."""
    told, lines = [], []
    for (backend, size), group in _grouped(rows, "backend", "n").items():
        plain = next((row for row in group if row["dtype"] == "float32"), None)
        for row in group:
            ratio = row["gflops"] / plain["gflops"] if plain else None
            lines.append(
                (
                    *(backend, row["dtype"], f"{size}³", number(row["gflops"], 3)),
                    *(number(ratio, 2), number(row["rel_error"], 2)),
                    row["effective_precision"] or "–",
                )
            )
            if row["effective_precision"] not in (None, row["dtype"]):
                told.append(
                    f"{backend} computes {row['dtype']} {size}³ in {row['effective_precision']}."
                )
            if ratio is not None and row["dtype"] in ("float16", "bfloat16") and ratio < 1:
                told.append(
                    f"{backend} {size}³: {row['dtype']} is slower than float32, at "
                    f"{number(ratio, 2)} of its rate."
                )
    head = ("backend", "dtype", "product", "GFLOP/s", "of float32", "relative error", "computed in")
    return Answer(told, head, lines)


def shapes(rows: Sequence[Row]) -> Answer:
    """Where a library leaves its fast path: rate and routine against its quickest cell."""
    told, lines = [], []
    for (backend,), group in _grouped(rows, "backend").items():
        best = max(group, key=lambda row: row["gflops"])
        for row in group:
            share = row["gflops"] / best["gflops"]
            lines.append(
                (
                    *(backend, _cell(row).name, number(row["gflops"], 3), f"{100 * share:.0f} %"),
                    *(_seen(row, "routine"), _copies(row)),
                )
            )
            if row.evidence.no_blas or row.evidence.hidden:
                why = "without BLAS" if row.evidence.no_blas else f"with {_copies(row)}"
                told.append(
                    f"{backend} leaves its fast path at {_cell(row).name}: {why}, "
                    f"{number(100 * share, 2)} % of its best rate."
                )
    head = ("backend", "cell", "GFLOP/s", "of its best", "routine", "copies seen")
    return Answer(told, head, lines)


def settings(rows: Sequence[Row]) -> Answer:
    """The best setting by cell, by how much, and the kernel that it brought."""
    told, lines = [], []
    for (base, _), group in _by_base(rows).items():
        plain = next((row for row in group if row["backend"] == base), None)
        if plain is None or len(group) < 2:
            continue
        group.sort(key=lambda row: -row["gflops"])
        for row in group:
            ratio = row["gflops"] / plain["gflops"]
            lines.append(
                (
                    *(row["backend"], _cell(row).name, number(row["gflops"], 3)),
                    *(number(ratio, 3), _seen(row, "kernel")),
                )
            )
        best, name = group[0], _cell(plain).name
        if best is plain or not _clearly_faster(best, plain):
            told.append(
                f"{base}, {name}: no setting is faster beyond the intervals and without a doubt."
            )
            continue
        ratio = number(best["gflops"] / plain["gflops"], 3)
        setting = best["backend"].removeprefix(f"{base}.")
        told.append(
            f"{base}, {name}: {setting} gives {ratio} times the rate "
            f"({_seen(plain, 'kernel')} → {_seen(best, 'kernel')})."
        )
    return Answer(told, ("backend", "cell", "GFLOP/s", "of the default", "kernel"), lines)


ANSWERS: dict[str, Callable[[Sequence[Row]], Answer]] = {
    "exercise": exercise,
    "levels": levels,
    "overhead": overhead,
    "small-calls": small_calls,
    "direct": direct,
    "threads": threads,
    "precision": precision,
    "shapes": shapes,
    "settings": settings,
}
"""By the `study` of the config."""


def _grouped(rows: Iterable[Row], *columns: str) -> dict[tuple[Any, ...], list[Row]]:
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[column] for column in columns), []).append(row)
    return groups


def _by_base(rows: Iterable[Row]) -> dict[tuple[str, str], list[Row]]:
    """Cells by the backend without its variant."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["backend"].partition(".")[0], row["cell"]), []).append(row)
    return groups


def _largest(rows: Sequence[Row]) -> Row:
    """The exercise's product if there, else the largest; the quickest of its thread counts."""
    return max(rows, key=lambda row: (row["n"] == EXERCISE, row["n"], row["gflops"]))


def _cell(row: Row) -> Cell:
    return Cell.parse(row["cell"])


def _seen(row: Row, what: str) -> str:
    """A routine or kernel with how it is known; never a name that was only expected."""
    name, mark = row[f"{what}_seen"], row[f"{what}_evidence"]
    if not name:
        return "not seen"
    return f"{name} ({mark})" if mark in SEEN else f"{name} (expected)"


def _copies(row: Row) -> str:
    """Work beside the product that evidence showed, with its bytes."""
    found = [
        f"{one.what} {bytes_text(one.bytes)}" if one.bytes else one.what
        for one in row.evidence.hidden
    ]
    if found:
        return ", ".join(found)
    return "none" if row.evidence.status == "ok" else "not looked for"


def _clearly_faster(one: Row, other: Row) -> bool:
    """Whether the intervals are apart; without intervals, or in doubt, nothing is clear."""
    if not DOUBTS.isdisjoint([*one.flags, *other.flags]):
        return False
    low, high = one["gflops_low"], other["gflops_high"]
    return low is not None and high is not None and low > high
