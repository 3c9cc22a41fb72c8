"""Reading documents that other people's machines wrote: every value is checked before it is used.

A value of the wrong type is never trusted and never fatal: it reads as unknown (None), and what was
found is noted for the report's list of problems.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
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
    """A document's values by dotted path, each of the type asked for or None.

    `problems` collects what was found instead, as "environment.deploy is a list, not text".
    """

    def __init__(self, document: Mapping[str, Any], prefix: str = "") -> None:
        self._document = document
        self._prefix = prefix
        self.problems: list[str] = []

    def text(self, path: str) -> str | None:
        value = self._typed(path, lambda value: isinstance(value, str), "text")
        return clean(value) or None if value else None

    def number(self, path: str) -> float | None:
        """A finite number of at least 0."""
        value = self._typed(path, _is_number, "a finite number of at least 0")
        return None if value is None else float(value)

    def integer(self, path: str) -> int | None:
        """A whole number of at least 0 that fits in 63 bits."""
        value = self.number(path)
        if value is not None and (value != int(value) or value >= 2**63):
            self._wrong(path, value, "a whole number")
            return None
        return None if value is None else int(value)

    def truth(self, path: str) -> bool | None:
        return self._typed(path, lambda value: isinstance(value, bool), "true or false")

    def texts(self, path: str) -> list[str]:
        """A list's texts; what is no text is left out and noted."""
        found = self._list(path)
        for index, value in enumerate(found):
            if not isinstance(value, str):
                self._wrong(f"{path}.{index}", value, "text")
        return [clean(value) for value in found if isinstance(value, str)]

    def parts(self, path: str) -> Iterator[Fields]:
        """The objects in a list, each as Fields that share this document's problems."""
        for index, value in enumerate(self._list(path)):
            if isinstance(value, Mapping):
                part = Fields(value, f"{self._prefix}{path}.{index}.")
                part.problems = self.problems
                yield part
            else:
                self._wrong(f"{path}.{index}", value, "an object")

    def numbers(self, path: str) -> list[float]:
        """A list of finite numbers above 0; an empty list, and a note, where any is not."""
        values = self._list(path)
        if all(_is_number(value) and value > 0 for value in values):
            return values
        self._wrong(path, values, "a list of numbers above 0")
        return []

    def mapping(self, path: str) -> dict[str, Any]:
        return self._typed(path, lambda value: isinstance(value, dict), "an object") or {}

    def _list(self, path: str) -> list[Any]:
        return self._typed(path, lambda value: isinstance(value, list), "a list") or []

    def _typed(self, path: str, fits: Callable[[Any], bool], wanted: str) -> Any:
        """The value if it fits; None, noted unless the value is absent, where it does not."""
        value = self._get(path)
        if value is None or fits(value):
            return value
        self._wrong(path, value, wanted)
        return None

    def _get(self, path: str) -> Any:
        value: Any = self._document
        for key in path.split("."):
            if value is None:
                return None
            if not isinstance(value, Mapping):
                self._wrong(path.rpartition(".")[0], value, "an object")
                return None
            value = value.get(key)
        return value

    def _wrong(self, path: str, value: Any, wanted: str) -> None:
        problem = f"{self._prefix}{path} is {_describe(value)}, not {wanted}"
        if problem not in self.problems:
            self.problems.append(problem)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < 1e300


def _describe(value: Any) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    text = repr(value) if not isinstance(value, int) or abs(value) < 10**30 else "a huge number"
    return clean(text, 60)
