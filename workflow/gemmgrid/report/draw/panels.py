"""What to draw: cells sorted into panels of a few lines each, before any drawing is done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from gemmgrid.report.read.rows import Row

MOST_LINES = 8
"""More lines than this on one panel cannot be told apart."""
MOST_PANELS = 24
LOGARITHMIC_FROM = 100
"""Lines whose best rates differ by more than this factor share a logarithmic axis."""

_DTYPES = ("float32", "float64", "float16", "bfloat16", "complex64", "complex128")
_ROUTINES = ("gemm", "gemv", "dot")

Key = TypeVar("Key")
Series = tuple[str, str]
"""Machine and backend: what one line stands for."""


@dataclass
class Panel:
    """One small drawing.

    lines: by series, its rows from left to right; x: the column across; rank: place among panels of
    the same products; limits: smallest and largest GFLOP/s of all panels that belong together.
    """

    title: str
    lines: dict[Series, list[Row]]
    x: str
    rank: int = 0
    limits: tuple[float, float] = (0.0, 1.0)
    logarithmic: bool = False

    @property
    def xs(self) -> list[int]:
        return sorted({row[self.x] for rows in self.lines.values() for row in rows})


def drawable(rows: Iterable[Row]) -> list[Row]:
    """Measured rows whose threads are what their name says."""
    return [row for row in rows if row.comparable]


def is_square(row: Row) -> bool:
    """Whether the cell lies on the axis of sizes: all its dimensions are n."""
    return all(row[axis] in (None, row["n"]) for axis in ("m", "k"))


def size_sweeps(rows: Sequence[Row]) -> list[Panel]:
    """GFLOP/s against n: a panel per routine, dtype, options and thread setting.

    A series with several thread counts appears twice: with one thread, and with the most it was
    measured with (two machines rarely have the same number of cores). Panels with one size only
    are left out.
    """
    squares = [row for row in drawable(rows) if is_square(row)]
    panels: list[Panel] = []
    for (routine, dtype, options), members in _grouped(
        squares, lambda row: (row["routine"], row["dtype"], row["options"])
    ):
        most = {
            series: max(row["threads"] for row in own) for series, own in _grouped(members, _series)
        }
        full = [row for row in members if row["threads"] == most[_series(row)]]
        several = {series for series, threads in most.items() if threads > 1}
        single = [row for row in members if row["threads"] == 1 and _series(row) in several]
        name = f"{routine} · {dtype}" + (f" · {options}" if options else "")
        panels += _split(name, full, "n")
        if single:
            panels += _split(name, single, "n", rank=1)
    return sorted((panel for panel in panels if len(panel.xs) > 1), key=_panel_order)


def thread_scalings(rows: Sequence[Row]) -> list[Panel]:
    """Speed against threads: a panel per routine and dtype, at the largest size that has most.

    Only default options; only series measured with one thread and with more at that size.
    """
    plain = [row for row in drawable(rows) if not row["options"]]
    panels: list[Panel] = []
    for (routine, dtype), members in _grouped(plain, lambda row: (row["routine"], row["dtype"])):
        by_shape = []
        for shape, alike in _grouped(members, lambda row: (row["m"], row["n"], row["k"])):
            lines = [own for _, own in _grouped(alike, _series) if _scales(own)]
            size = max(side or 0 for side in shape)
            by_shape.append((len(lines), size, [row for own in lines for row in own]))
        count, _, chosen = max(by_shape, key=lambda entry: entry[:2])
        if count:
            title = f"{routine} · {dtype} · {shape_text(chosen[0])}"
            panels += _split(title, chosen, "threads")
    return sorted(panels, key=_panel_order)


def shape_text(row: Row) -> str:
    """m×n×k as far as the routine has them."""
    return "×".join(str(row[axis]) for axis in ("m", "n", "k") if row[axis] is not None)


def _scales(rows: Sequence[Row]) -> bool:
    return len(rows) > 1 and any(row["threads"] == 1 for row in rows)


def _split(title: str, rows: Sequence[Row], x: str, rank: int = 0) -> list[Panel]:
    """One panel, or one a machine where that is too many lines, or several parts of those."""
    lines = {
        series: sorted(own, key=lambda row: row[x])
        for series, own in sorted(_grouped(rows, _series))
    }
    parts: list[tuple[str, list[Series]]] = [("", list(lines))]
    if len(lines) > MOST_LINES:
        parts = []
        machines = sorted({machine for machine, _ in lines})
        for machine in machines:
            own = [series for series in lines if series[0] == machine]
            where = f" · {machine}" if len(machines) > 1 else ""
            chunks = [own[start : start + MOST_LINES] for start in range(0, len(own), MOST_LINES)]
            for number, chunk in enumerate(chunks, start=1):
                which = f" · part {number} of {len(chunks)}" if len(chunks) > 1 else ""
                parts.append((where + which, chunk))
    panels = []
    for which, members in parts:
        own_lines = {series: lines[series] for series in members}
        threads = "" if x == "threads" else _threads_text(own_lines)
        panel = Panel(f"{title}{threads}{which}", own_lines, x, rank)
        panel.limits, panel.logarithmic = _limits(lines)
        panels.append(panel)
    return panels


def _limits(lines: dict[Series, list[Row]]) -> tuple[tuple[float, float], bool]:
    """Smallest and largest rate, and whether the lines lie too far apart for a linear axis."""
    rates = [row["gflops"] for rows in lines.values() for row in rows]
    tops = [max(row["gflops"] for row in rows) for rows in lines.values()]
    return (min(rates), max(rates)), max(tops) > LOGARITHMIC_FROM * min(tops)


def _threads_text(lines: dict[Series, list[Row]]) -> str:
    """How many threads these lines have, for a title."""
    counts = sorted({row["threads"] for rows in lines.values() for row in rows})
    listed = " or ".join(map(str, counts)) if len(counts) <= 3 else f"{counts[0]} to {counts[-1]}"
    return f" · {listed} thread{'' if counts == [1] else 's'}"


def _series(row: Row) -> Series:
    return row["machine"], row["backend"]


def _grouped(rows: Iterable[Row], key: Callable[[Row], Key]) -> list[tuple[Key, list[Row]]]:
    groups: dict[Key, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return list(groups.items())


def _panel_order(panel: Panel) -> tuple[int, int, str, int, int, str]:
    """Default options first, then gemm before gemv, float32 before the rest, many threads first."""
    series, rows = next(iter(panel.lines.items()))
    row = rows[0]
    return (
        1 if row["options"] else 0,
        _ROUTINES.index(row["routine"]),
        row["options"],
        _DTYPES.index(row["dtype"]),
        panel.rank,
        series[0],
    )
