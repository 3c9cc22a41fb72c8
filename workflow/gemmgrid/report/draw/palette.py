"""How a series looks: its backend's colour and marker, its machine's dash, the same on every panel.

Eight colours that stay apart in the common kinds of colour blindness, after M. Okabe, K. Ito,
"Color Universal Design" (2008), darkened where they were too pale for lines on white; page.css
has them as variables, and paler ones for the dark theme. A ninth backend takes the first colour
again, with another marker.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gemmgrid.report.read.rows import Row

LIGHT = ("#0072b2", "#d55e00", "#007d5c", "#aa3f86", "#b07d00", "#2b97ce", "#6b4c9a", "#5a5a5a")
DASHES: tuple[tuple[float, ...], ...] = ((), (5, 2), (1, 1.6), (6, 2, 1, 2), (3, 1.2), (8, 2, 2, 2))

_MARKER_PATHS = {
    "o": "M12 3.2a2.8 2.8 0 1 0 .01 0z",
    "s": "M9.4 3.4h5.2v5.2h-5.2z",
    "^": "M12 2.6l3.2 6h-6.4z",
    "D": "M12 2.4l3.6 3.6-3.6 3.6-3.6-3.6z",
    "v": "M12 9.4l3.2-6h-6.4z",
    "P": "M10.9 2.8h2.2v2.1h2.1v2.2h-2.1v2.1h-2.2v-2.1h-2.1v-2.2h2.1z",
    "X": "M9.6 2.8l2.4 1.6 2.4-1.6.9 1-1.6 2.2 1.6 2.2-.9 1-2.4-1.6-2.4 1.6-.9-1 1.6-2.2-1.6-2.2z",
    "p": "M12 2.6l3.3 2.4-1.3 3.9h-4l-1.3-3.9z",
    "h": "M12 2.4l3.1 1.8v3.6l-3.1 1.8-3.1-1.8v-3.6z",
    "<": "M8.8 6l6-3.2v6.4z",
    ">": "M15.2 6l-6-3.2v6.4z",
    "d": "M12 2.2l2.2 3.8-2.2 3.8-2.2-3.8z",
}
MARKERS = tuple(_MARKER_PATHS)


@dataclass(frozen=True)
class Look:
    """The appearance of one series."""

    colour: int
    marker: str
    dash: tuple[float, ...]

    @property
    def light(self) -> str:
        return LIGHT[self.colour]

    @property
    def marker_path(self) -> str:
        """The marker as an SVG path around (12, 6), for the legend."""
        return _MARKER_PATHS[self.marker]

    @property
    def dash_array(self) -> str:
        return " ".join(f"{length * 1.6:g}" for length in self.dash)


class Palette:
    """Looks for all backends and machines of a report, in alphabetical order."""

    def __init__(self, rows: Iterable[Row]) -> None:
        listed = list(rows)
        self.backends = sorted({row["backend"] for row in listed})
        self.machines = sorted({row["machine"] for row in listed})

    def look(self, machine: str, backend: str) -> Look:
        index = self.backends.index(backend)
        dash = DASHES[self.machines.index(machine) % len(DASHES)]
        return Look(index % len(LIGHT), MARKERS[index % len(MARKERS)], dash)
