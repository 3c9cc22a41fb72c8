"""The summary at the end of a run: the study's cells as a table, then what is missing and why."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from textwrap import wrap as wrap_text

from gemmgrid.records.text import count, number, shorten
from gemmgrid.report.lesson.answers import answer
from gemmgrid.report.read.collect import Collection
from gemmgrid.report.read.coverage import Coverage, coverage, groups
from gemmgrid.report.read.foreign_runs import ForeignRuns
from gemmgrid.report.read.rows import MISSING, Row, reading_order
from gemmgrid.report.terminal.text import WIDTH, paint, wants_colour

MOST_ROWS = 200
MOST_TRIES = 3
MOST_GROUPS = 40
MOST_APART = 8
_STATUS_COLOURS = {"ok": "green", "missing": "yellow", "excluded": "dim", "unsupported": "dim"}

wrap = partial(wrap_text, break_on_hyphens=False)  # which are in backends' names


def summary(collection: Collection, report: Path, findings: Iterable[str] = ()) -> str:
    """The whole text, for standard output; a line is at most 100 columns, commands apart.

    findings: the answers that stand first, a text each.
    """
    found = coverage(collection)
    colour = wants_colour()
    study = collection.plan.study if collection.plan else None
    lines = [*_headline(study, found, colour)]
    for told in findings:
        lines += wrap(told, WIDTH, subsequent_indent="  ")
    lines += _table(found, colour)
    lines += _not_measured(found, colour)
    lines += _answer(collection, colour)
    lines += _made_elsewhere(collection, colour)
    if collection.problems:
        first = collection.problems[0]
        problems = count("problem", len(collection.problems))
        told = f"{problems} in files under {collection.results}, first: {first.file}"
        lines += ["", paint(_fit(told), "yellow", colour)]
        lines += [_fit(f"  {first.problem}")]
    lines += ["", f"report: {report}" if report.exists() else f"report: {report} is not made yet"]
    return "\n".join(lines) + "\n"


def _headline(study: str | None, found: Coverage, colour: bool) -> Iterable[str]:
    counts = [f"{count} {status}" for status, count in found.counts.most_common()]
    name = f"study {_fit(study, 40)}" if study else "every cell found (no plan)"
    told = f"{name}: {count('cell', len(found.rows))}: {', '.join(counts) or 'none'}"
    for line in wrap(told, WIDTH, subsequent_indent="  "):
        yield paint(line, "bold", colour)


def _table(found: Coverage, colour: bool) -> Iterable[str]:
    """Backend, cell, GFLOP/s with its interval, status and flags, in an order that reads well."""
    wanted = [row for row in found.rows if row["id"] or row["status"] == MISSING]
    shown = sorted(wanted, key=reading_order)[:MOST_ROWS]
    if not shown:
        return
    widest, longest = (26, 34) if found.several_machines else (20, 40)
    places = {id(row): _fit(found.place(row), widest) for row in shown}
    backend = max(map(len, places.values()))
    cell = min(longest, max(len(row["cell"]) for row in shown))
    title = "machine/backend" if found.several_machines else "backend"
    head = f"{title:<{backend}}  {'cell':<{cell}}  {'GFLOP/s':>8}  {'95 % interval':>17}  status"
    everywhere = _everywhere(wanted)
    yield ""
    if everywhere:
        yield paint(_fit(f"every measured cell: {', '.join(everywhere)}"), "dim", colour)
    yield paint(head, "dim", colour)
    for row in shown:
        doubts = (flag for flag in row.flags if flag not in everywhere)
        status = " ".join([row["status"], *doubts, *filter(None, [row["far"]])])
        limits = ""
        if row["gflops_low"] is not None:
            limits = f"{number(row['gflops_low'])} – {number(row['gflops_high'])}"
        line = (
            f"{places[id(row)]:<{backend}}  {_fit(row['cell'], cell):<{cell}}  "
            f"{number(row['gflops']):>8}  {limits:>17}  "
        )
        tint = _STATUS_COLOURS.get(row["status"], "red")
        yield line + paint(shorten(status, WIDTH - len(line)), tint, colour)
    if len(wanted) > len(shown):
        yield f"… and {len(wanted) - len(shown)} more: see tables/cells.csv"


def _everywhere(rows: list[Row]) -> list[str]:
    """Flags that every measured cell carries: said once, they leave room for those that differ."""
    measured = [row.flags for row in rows if row["status"] == "ok"]
    if len(measured) < 2:
        return []
    return [flag for flag in measured[0] if all(flag in flags for flags in measured)]


def _not_measured(found: Coverage, colour: bool) -> Iterable[str]:
    """Per group of cells with one status and reason: how many, why, and what tries again."""
    rows = [row for row in found.rows if row["status"] != "ok"]
    if not rows:
        return
    yield ""
    yield paint("not measured, and the command that tries again:", "bold", colour)
    grouped = groups(rows)
    for group in grouped[:MOST_GROUPS]:
        tint = _STATUS_COLOURS.get(group.status, "red")
        told = f"{found.place(group.rows[0])}, {count('cell', len(group.rows))}: {group.reason}"
        yield f"{paint(group.status, tint, colour)}  {_fit(told, WIDTH - 2 - len(group.status))}"
        tries = [row["retry"] for row in group.rows if row["retry"]]
        for command in tries[:MOST_TRIES]:
            yield from _command(command)
        if len(tries) > MOST_TRIES:
            yield f"  … {len(tries) - MOST_TRIES} more: column retry of tables/cells.csv"
        if not tries:
            yield "  left out by the plan: no command before the config changes"
    if len(grouped) > MOST_GROUPS:
        yield f"… and {len(grouped) - MOST_GROUPS} more reasons: see tables/cells.csv"


def _answer(collection: Collection, colour: bool) -> Iterable[str]:
    """What the study found, where it is one of the lesson's."""
    if found := answer(collection):
        yield ""
        yield paint("the answer:", "bold", colour)
        for line in found.told:
            yield from wrap(line, WIDTH, subsequent_indent="  ")
        yield from map(_fit, found.lines()[len(found.told) :])


def _made_elsewhere(collection: Collection, colour: bool) -> Iterable[str]:
    """What other machines left in the folders of the study's machines, loud and apart."""
    wanted = {key[0] for key in collection.planned}
    for one in collection.foreign:
        if one.machine in wanted or not collection.plan:
            yield ""
            yield from _apart(one, colour)


def _apart(one: ForeignRuns, colour: bool) -> Iterable[str]:
    cells = count("cell", len(one.cells))
    place = f" ({one.place})" if one.place else ""
    told = f"OTHER MACHINE: runs of {cells} meant for {one.machine} are of {one.name}{place}:"
    for line in wrap(told, WIDTH, subsequent_indent="  "):
        yield paint(line, "red", colour)
    for text in one.differences:
        for line in wrap(text, WIDTH, initial_indent="  - ", subsequent_indent="    "):
            yield paint(line, "red", colour)
    yield "  shown apart, in no figure or comparison:"
    for row in sorted(one.cells, key=reading_order)[:MOST_APART]:
        rate = f"{number(row['gflops'])} GFLOP/s" if row.measured else row["reason"] or ""
        yield _fit(f"  {row['status']}  {row['backend']}/{row['cell']}  {rate}".rstrip())
    if len(one.cells) > MOST_APART:
        yield f"  … and {len(one.cells) - MOST_APART} more: see tables/cells.csv"


def _fit(text: str, width: int = WIDTH) -> str:
    """The text in one line of the terminal; what is too long loses its middle."""
    return shorten(text, width, keep_end=True)


def _command(command: str) -> Iterable[str]:
    """The command, broken before its last word where it would not fit; it can still be pasted."""
    if len(command) + 2 <= WIDTH:
        yield f"  {command}"
    else:
        start, _, file = command.rpartition(" -f ")
        yield f"  {start} -f \\"
        yield f"    {file}"
