"""Text for a terminal: colours only where they are wanted, columns that fit."""

from __future__ import annotations

import os
import sys
from math import floor, log10
from typing import TextIO

WIDTH = 100
_COLOURS = {"red": "31", "green": "32", "yellow": "33", "dim": "2", "bold": "1"}


def wants_colour(stream: TextIO | None = None) -> bool:
    """Whether `stream` (standard output) is a terminal and NO_COLOR (no-color.org) is not set."""
    stream = stream or sys.stdout
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, colour: str, enabled: bool) -> str:
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if enabled and text.strip() else text


def number(value: float | None, digits: int = 4) -> str:
    """A number as people read it: four significant digits, no exponent between 0.001 and 10⁷."""
    if value is None:
        return "–"
    if value == 0:
        return "0"
    if not 1e-3 <= abs(value) < 1e7:
        return f"{value:.{digits - 1}e}"
    rounded = float(f"{value:.{digits}g}")
    return f"{rounded:.{max(0, digits - 1 - floor(log10(abs(rounded))))}f}"
