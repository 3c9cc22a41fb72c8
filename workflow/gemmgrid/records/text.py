"""Words that every part prints alike."""

from __future__ import annotations

from math import floor, log10


def count(noun: str, number: int, plural: str | None = None) -> str:
    """A number with its noun: `1 cell`, `2 cells`; plural where it takes more than an s."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def shorten(text: str, width: int, keep_end: bool = False) -> str:
    """The text in at most `width` characters; what is too long loses its end, or its middle."""
    if len(text) <= width:
        return text
    end = (width - 1) // 2 if keep_end else 0
    return f"{text[: width - 1 - end]}…{text[len(text) - end :]}"


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


def spell_seconds(seconds: float) -> str:
    """`45 s`, `3 min`, `1 h 20 min`."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
