"""The command `compare`: two sides that a user names, as a pair, and its text for a terminal.

A side is a machine, a backend, `machine/backend`, `dtype=`, `threads=` or `options=` with a value
(`options=default` for none), a day or moment (2026-11-30, 2026-11-30T12:00:
each cell's latest run by then), or `now`. Without names: before and after.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from gemmgrid.records.statistics import Interval
from gemmgrid.records.text import count, number, shorten
from gemmgrid.report.judge import compare
from gemmgrid.report.judge.compare import Pair, told
from gemmgrid.report.judge.verdicts import VERDICTS
from gemmgrid.report.read.collect import Collection
from gemmgrid.report.read.rows import Row, standing
from gemmgrid.report.statistics import LEAST_ROUNDS
from gemmgrid.report.terminal.text import WIDTH, paint, wants_colour

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
    axis, is_axis, value = name.partition("=")
    if is_axis and axis in compare.AXES:
        return axis, _having(collection.cells, axis, value)
    if _MOMENT.fullmatch(name):
        return compare.MOMENTS, _as_of(collection.runs, name)
    if any(name == one.name for one in collection.foreign):
        raise NoSuchSideError(
            f"{name} stands for runs that another machine made than the one in whose folder they "
            "are: such runs are shown apart and not compared"
        )
    known = [*machines, *backends]
    near = get_close_matches(name, known, n=1)
    raise NoSuchSideError(
        f"{name!r} is no machine, backend, machine/backend, dtype=, threads=, options=, day or "
        "'now'. Found: "
        f"{', '.join(known) or 'nothing measured'}."
        + (f" Did you mean {near[0]!r}?" if near else "")
    )


def _having(cells: Sequence[Row], axis: str, value: str) -> list[Row]:
    """The cells with that value on the axis; NoSuchSideError where there is none."""
    found = [row for row in cells if (str(row[axis]) or "default") == value]
    if not found:
        there = sorted({str(row[axis]) or "default" for row in cells})
        raise NoSuchSideError(
            f"no cell has {axis}={value}. Found: {', '.join(there) or 'nothing measured'}."
        )
    return found


def _as_of(runs: Sequence[Row], moment: str) -> list[Row]:
    """Each cell as it stood at that moment, by the runs that had ended; a day counts to its end."""
    limit = f"{moment}T99" if len(moment) == 10 else moment
    histories: dict[tuple[str, str, str], list[Row]] = {}
    for row in runs:
        if row["measured_at"] and row["measured_at"] <= limit:
            histories.setdefault(row.key, []).append(row)
    return list(map(standing, histories.values()))


def _word(kind: str) -> str:
    words = {compare.MACHINES: "machine", compare.BACKENDS: "backend"}
    words |= {axis: axis for axis in compare.AXES}
    return words.get(kind, "machine/backend" if kind == compare.PLACES else "moment")


def text(found: Sequence[Pair]) -> str:
    """The pairs for a terminal: summary, what changed, cell by cell."""
    if not found:
        return (
            "no cell has been measured in two contexts: nothing that can move a number has changed "
            "between its runs\n"
        )
    colour = wants_colour()
    return "\n".join(line for pair in found for line in _pair_lines(pair, colour))


def _pair_lines(pair: Pair, colour: bool) -> Iterator[str]:
    counts = ", ".join(f"{pair.counts[word]} {word}" for word in VERDICTS if pair.counts[word])
    yield paint(f"{pair.first} against {pair.second}", "bold", colour)
    yield (
        f"{count('shared cell', len(pair.comparisons))}: {counts or 'none'}; only {pair.first}: "
        f"{pair.only_first}, only {pair.second}: {pair.only_second}"
    )
    if common := told(pair.common_changes):
        yield from ("what differs in every cell:", *(f"  {line}" for line in common))
    if pair.comparisons:
        yield from ("", paint("overall (geometric mean, interval over rounds)", "dim", colour))
    for group in compare.summaries(pair.comparisons):
        ratio = number(group.overall.value if group.overall else None, 3)
        yield (
            f"  {_fit(group.backend, 20):<20}  {group.product:<18} {group.count:>5} cells  "
            f"{ratio:>6}  {_limits(group.overall)}"
        )
    if pair.comparisons:
        head = f"  {'backend':<16}  {'cell':<36}  {'ratio':>6}  {'95 % interval':>15}  "
        head += f"{'rounds':<8}  verdict"
        yield from ("", paint(head, "dim", colour))
    for one in pair.comparisons[:MOST_CELLS]:
        verdict = one.verdict + (f" ({one.advice})" if one.advice else "")
        yield (
            f"  {_fit(one.first['backend'], 16):<16}  {_fit(one.first['cell'], 36):<36}  "
            f"{number(one.ratio, 3):>6}  {_limits(one.interval):>15}  "
            f"{one.pairing:<8}  " + paint(verdict, _COLOURS.get(one.verdict, "dim"), colour)
        )
        yield from (_fit(f"      {line}", WIDTH) for line in told(pair.own_changes(one), 4))
    if len(pair.comparisons) > MOST_CELLS:
        yield f"  … and {len(pair.comparisons) - MOST_CELLS} more: tables/comparisons.csv"
    if pair.firming:
        yield f"insufficient: fewer than {LEAST_ROUNDS} rounds; the first such cell in more:"
        yield from (f"  {command}" for command in pair.firming)
    yield ""


def _limits(found: Interval | None) -> str:
    return f"{number(found.low, 3)} – {number(found.high, 3)}" if found else "–"


def _fit(text: str, width: int) -> str:
    return shorten(text, width, keep_end=True)
