"""The drawings, with seaborn, as SVG whose text stays text and whose colours follow the theme."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO
from typing import Any

import matplotlib as mpl

mpl.use("svg")  # before seaborn imports pyplot, which would otherwise look for a display

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from gemmgrid.report.draw.palette import Palette
from gemmgrid.report.draw.panels import Panel
from gemmgrid.report.draw.svg import GRID, PAPER, TEXT, inline

SIZE = (4.3, 3.0)
"""Inches: as wide as a phone shows without shrinking its text below reading size."""
MOST_TICKS = 7

_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "gemmgrid",
    "font.size": 9.5,
    "axes.labelsize": 9.5,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "axes.edgecolor": GRID,
    "axes.labelcolor": TEXT,
    "xtick.color": TEXT,
    "ytick.color": TEXT,
    "text.color": TEXT,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
}


def size_sweep(panel: Panel, palette: Palette, identifier: str) -> str:
    """GFLOP/s against n (logarithmic), the median as a line, its 95 % interval as a band."""
    with mpl.rc_context(_STYLE):
        figure, axes = _axes()
        _lines(axes, panel, palette, "gflops")
        for series, rows in panel.lines.items():
            banded = [row for row in rows if row["gflops_low"] is not None]
            axes.fill_between(
                [row["n"] for row in banded],
                [row["gflops_low"] for row in banded],
                [row["gflops_high"] for row in banded],
                color=palette.look(*series).light,
                alpha=0.18,
                linewidth=0,
            )
        axes.set_xscale("log", base=2)
        _ticks(axes, panel.xs)
        _rate_axis(axes, panel)
        axes.set(xlabel="n", ylabel="GFLOP/s")
        return inline(_drawn(figure), f"{panel.title}: GFLOP/s against n", identifier)


def thread_scaling(panel: Panel, palette: Palette, identifier: str) -> str:
    """Speed-up over one thread against threads; the dashed diagonal is ideal."""
    with mpl.rc_context(_STYLE):
        figure, axes = _axes()
        _lines(axes, panel, palette, "speedup")
        xs = panel.xs
        axes.plot(xs, xs, color=TEXT, alpha=0.5, linewidth=1, dashes=(2, 3))
        if len(xs) > 2 and xs[-1] / xs[0] > 4:
            axes.set_xscale("log", base=2)
            axes.set_yscale("log", base=2)
            axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
        else:
            axes.set_ylim(bottom=0)
        _ticks(axes, xs)
        axes.set(xlabel="threads", ylabel="speed-up over 1 thread")
        return inline(_drawn(figure), f"{panel.title}: speed-up against threads", identifier)


def _axes() -> tuple[Figure, Any]:
    figure = Figure(figsize=SIZE, layout="constrained")
    return figure, figure.add_subplot()


def _lines(axes: Any, panel: Panel, palette: Palette, y: str) -> None:
    """One line a series: hue by backend, dash by machine."""
    looks = {
        f"{machine} {backend}": palette.look(machine, backend) for machine, backend in panel.lines
    }
    points = [
        {
            "series": f"{machine} {backend}",
            "x": row[panel.x],
            "gflops": row["gflops"],
            "speedup": row["gflops"] / rows[0]["gflops"],
        }
        for (machine, backend), rows in panel.lines.items()
        for row in rows
    ]
    sns.lineplot(
        data=pd.DataFrame(points),
        x="x",
        y=y,
        hue="series",
        style="series",
        palette={name: look.light for name, look in looks.items()},
        markers={name: look.marker for name, look in looks.items()},
        dashes={name: look.dash or "" for name, look in looks.items()},
        markersize=5.5,
        markeredgecolor=PAPER,
        markeredgewidth=0.7,
        linewidth=1.5,
        errorbar=None,
        estimator=None,
        legend=False,
        ax=axes,
    )


def _ticks(axes: Any, xs: Sequence[int]) -> None:
    """Ticks at sizes that were measured; every second one, third one … where they would crowd."""
    step = -(-len(xs) // MOST_TICKS)
    axes.xaxis.set_major_locator(FixedLocator(list(xs)[::-1][::step][::-1]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:.0f}"))


def _rate_axis(axes: Any, panel: Panel) -> None:
    """From zero, unless the lines lie so far apart that only a logarithmic axis shows them all."""
    low, high = panel.limits
    if panel.logarithmic:
        axes.set_yscale("log")
        axes.yaxis.set_minor_locator(NullLocator())
        axes.set_ylim(low / 1.6, high * 1.6)
    else:
        axes.set_ylim(0, high * 1.12)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,.10g}".replace(",", "\u202f")))


def _drawn(figure: Figure) -> str:
    buffer = StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()
