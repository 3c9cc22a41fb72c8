"""Two sides that a user names, as a pair: before and after, machines, backends, moments.

A side is a machine, a backend, `machine/backend`, a day or moment (2026-11-30, 2026-11-30T12:00:
the latest good runs of that time), or `now`. Without names: before and after.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

from gemmgrid.report.draw.forest import advice, own_changes, told
from gemmgrid.report.judge import compare
from gemmgrid.report.judge.compare import Pair
from gemmgrid.report.read.collect import Collection
from gemmgrid.report.read.rows import Row
from gemmgrid.report.terminal.text import WIDTH, number, paint, shorten, wants_colour

NOW = "now"
MOST_CELLS = 200
_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2})?Z?)?")
_COLOURS = {"faster": "green", "slower": "red"}


class NoSuchSideError(ValueError):
    """A side cannot be found; the text is the finished message."""


def pairs(collection: Collection, first: str | None, second: str | None) -> list[Pair]:
    """The pairs that two names mean; NoSuchSideError where they mean none."""
    if not first and not second:
        return compare.before_and_after(collection.runs)
    if not first or not second:
        raise NoSuchSideError(
            "one side is missing: name both, as in --config first=machine-a second=machine-b, "
            "or none, for before and after"
        )
    (kind, left), (other, right) = (_side(collection, name) for name in (first, second))
    if NOW in (kind, other) and compare.MOMENTS in (kind, other):
        kind = other = compare.MOMENTS
    if kind != other or kind == NOW:
        raise NoSuchSideError(
            f"first={first} and second={second} cannot be compared: one names a {_word(kind)}, "
            f"the other a {_word(other)}"
        )
    return [compare.pair(kind, first, second, left, right)]


def _side(collection: Collection, name: str) -> tuple[str, list[Row]]:
    machines = sorted({row["machine"] for row in collection.cells})
    backends = sorted({row["backend"] for row in collection.cells})
    if name == NOW:
        return NOW, collection.cells
    if name in machines:
        return compare.MACHINES, [row for row in collection.cells if row["machine"] == name]
    if name in backends:
        return compare.BACKENDS, [row for row in collection.cells if row["backend"] == name]
    machine, slash, backend = name.partition("/")
    if slash and machine in machines and backend in backends:
        rows = [row for row in collection.cells if row.key[:2] == (machine, backend)]
        return compare.PLACES, rows
    if _MOMENT.fullmatch(name):
        return compare.MOMENTS, _as_of(collection.runs, name)
    if any(name == one.name for one in collection.apart):
        raise NoSuchSideError(
            f"{name} stands for runs that another machine made than the one in whose folder they "
            "are: such runs are shown apart and not compared"
        )
    known = [*machines, *backends]
    near = get_close_matches(name, known, n=1)
    raise NoSuchSideError(
        f"{name!r} is no machine, backend, machine/backend, day or 'now'. Found: "
        f"{', '.join(known) or 'nothing measured'}."
        + (f" Did you mean {near[0]!r}?" if near else "")
    )


def _as_of(runs: Sequence[Row], moment: str) -> list[Row]:
    """Each cell's latest good run that had ended at that moment; a day counts to its end."""
    limit = f"{moment}T99" if len(moment) == 10 else moment
    latest = {
        row.key: row
        for row in runs
        if row.medians_s and row["measured_at"] and row["measured_at"] <= limit
    }
    return list(latest.values())


def _word(kind: str) -> str:
    words = {compare.MACHINES: "machine", compare.BACKENDS: "backend", NOW: "moment"}
    return words.get(kind, {compare.PLACES: "machine/backend"}.get(kind, "moment"))


def text(found: Sequence[Pair]) -> str:
    """The pairs for a terminal: summary, what changed, cell by cell."""
    if not found:
        return (
            "no cell has been measured in two contexts: nothing that can move a number has changed "
            "between its runs\n"
        )
    colour = wants_colour()
    lines: list[str] = []
    for pair in found:
        lines += [*_pair_lines(pair, colour), ""]
    return "\n".join(lines)


def _pair_lines(pair: Pair, colour: bool) -> list[str]:
    counts = ", ".join(
        f"{pair.counts[word]} {word}" for word in compare.VERDICTS if pair.counts[word]
    )
    lines = [
        paint(f"{pair.first} against {pair.second}", "bold", colour),
        f"{len(pair.comparisons)} shared cells: {counts or 'none'}; only {pair.first}: "
        f"{pair.only_first}, only {pair.second}: {pair.only_second}",
    ]
    if pair.kind != compare.BACKENDS and (common := told(pair.common_changes)):
        lines += ["what differs in every cell:", *(f"  {line}" for line in common)]
    if pair.comparisons:
        lines += ["", paint("overall (geometric mean, interval over processes)", "dim", colour)]
    for group in compare.summaries(pair.comparisons):
        limits = group.overall
        told_limits = f"{number(limits.low, 3)} – {number(limits.high, 3)}" if limits else "–"
        ratio = number(limits.value if limits else None, 3)
        lines.append(
            f"  {shorten(group.backend, 20):<20}  {group.product:<18} {group.count:>5} cells  "
            f"{ratio:>6}  {told_limits}"
        )
    if pair.comparisons:
        head = f"  {'backend':<16}  {'cell':<36}  {'ratio':>6}  {'95 % interval':>15}  verdict"
        lines += ["", paint(head, "dim", colour)]
    for one in pair.comparisons[:MOST_CELLS]:
        limits = one.ratio
        shown = f"{number(limits.low, 3)} – {number(limits.high, 3)}" if limits else "–"
        needs = f" (needs {advice(one)})" if advice(one) else ""
        lines.append(
            f"  {shorten(one.first['backend'], 16):<16}  {shorten(one.first['cell'], 36):<36}  "
            f"{number(limits.value if limits else one.plain, 3):>6}  {shown:>15}  "
            + paint(one.verdict + needs, _COLOURS.get(one.verdict, "dim"), colour)
        )
        if pair.kind != compare.BACKENDS:
            lines += [shorten(f"      {line}", WIDTH) for line in told(own_changes(one, pair), 4)]
    if len(pair.comparisons) > MOST_CELLS:
        lines.append(f"  … and {len(pair.comparisons) - MOST_CELLS} more: tables/comparisons.csv")
    return lines
