"""Words that every part prints alike."""

from __future__ import annotations


def count(noun: str, number: int, plural: str | None = None) -> str:
    """A number with its noun: `1 cell`, `2 cells`; plural where it takes more than an s."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def shorten(text: str, width: int, keep_end: bool = False) -> str:
    """The text in at most `width` characters; what is too long loses its end, or its middle."""
    if len(text) <= width:
        return text
    end = (width - 1) // 2 if keep_end else 0
    return f"{text[: width - 1 - end]}…{text[len(text) - end :]}"
