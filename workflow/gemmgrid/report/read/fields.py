"""Values out of documents that other people's machines wrote: of the type asked for, or unknown.

What a run's values are is checked where it is read (records.run), which also names what is wrong.
machine.json and the plan have no such door: there a value of another type simply is not known. Text
is made printable.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from gemmgrid.records.text import shorten

LONGEST_TEXT = 2000
_LINE_BREAKS = re.compile(r"\s*[\n\r\t\v\f\u2028\u2029]\s*")


def clean(text: str, longest: int = LONGEST_TEXT) -> str:
    """One line of printable text: no line breaks, no terminal escapes, no reordering marks."""
    if len(text) <= longest and text.isprintable():
        return text.strip()
    flat = _LINE_BREAKS.sub(" ", text[: longest * 4]).strip()
    printable = "".join(_printable(character) for character in flat)
    return shorten(printable, longest)


def clean_lines(text: str, longest: int = LONGEST_TEXT) -> str:
    """The end of a text with its line breaks, each line as `clean` leaves it."""
    return "\n".join(clean(line) for line in text[-longest:].splitlines())


def _printable(character: str) -> str:
    # Cc: control, Cf: format (bidirectional overrides hide what a line says), Cs: lone surrogates.
    return "\ufffd" if unicodedata.category(character) in ("Cc", "Cf", "Cs") else character


class Fields:
    """A document's values by dotted path, each of the type asked for or None."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document

    def text(self, path: str) -> str | None:
        value = self._get(path, str)
        return clean(value) or None if value else None

    def number(self, path: str) -> float | None:
        """A finite number of at least 0."""
        value = self._get(path, int, float)
        return float(value) if value is not None and 0 <= value < 1e300 else None

    def integer(self, path: str) -> int | None:
        """A whole number of at least 0 that fits in 63 bits."""
        value = self._get(path, int, float)
        return int(value) if value is not None and 0 <= value < 2**63 and value % 1 == 0 else None

    def truth(self, path: str) -> bool | None:
        value = self._get(path, bool)
        return None if value is None else bool(value)

    def texts(self, path: str) -> list[str]:
        """The texts in a list."""
        return [clean(one) for one in self.sequence(path) if isinstance(one, str)]

    def parts(self, path: str) -> Iterator[Fields]:
        """The objects in a list."""
        return (Fields(one) for one in self.sequence(path) if isinstance(one, Mapping))

    def sequence(self, path: str) -> list[Any]:
        return self._get(path, list) or []

    def mapping(self, path: str) -> dict[str, Any]:
        return self._get(path, dict) or {}

    def _get(self, path: str, *kinds: type) -> Any:
        value: Any = self._document
        for key in path.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        return value if type(value) in kinds else None
