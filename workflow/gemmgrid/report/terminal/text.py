"""Text for a terminal: colours only where they are wanted, columns that fit."""

from __future__ import annotations

import os
import sys
from typing import TextIO

WIDTH = 100
_COLOURS = {"red": "31", "green": "32", "yellow": "33", "dim": "2", "bold": "1"}


def wants_colour(stream: TextIO | None = None) -> bool:
    """Whether `stream` (standard output) is a terminal and NO_COLOR (no-color.org) is not set."""
    stream = stream or sys.stdout
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, colour: str, enabled: bool) -> str:
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if enabled and text.strip() else text
