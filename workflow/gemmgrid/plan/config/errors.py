"""What a wrong config raises: one error whose text is the finished message."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from gemmgrid.records.text import shorten

SHOWN = 12
"""Problems and allowed words are cut after this many, with their number."""


class ConfigError(ValueError):
    """The config cannot be planned; `str` of it says where, what was found, what is allowed."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = list(problems)
        super().__init__(_joined(self.problems))


ALIASES = {
    "half": "float16",
    "single": "float32",
    "double": "float64",
    "single-complex": "complex64",
    "double-complex": "complex128",
    **dict.fromkeys(("fp16", "f16"), "float16"),
    **dict.fromkeys(("bf16", "bfloat", "brain"), "bfloat16"),
    **dict.fromkeys(("fp32", "f32", "float", "real"), "float32"),
    **dict.fromkeys(("fp64", "f64"), "float64"),
    **dict.fromkeys(("c64", "cfloat", "complex"), "complex64"),
    **dict.fromkeys(("c128", "cdouble"), "complex128"),
}
"""Other names of our words, whose spelling is like that of another one."""


def nearest(word: object, allowed: Iterable[str]) -> str | None:
    """The allowed word that is meant by this one or most like it, or None where none is."""
    words = list(allowed)
    if (meant := ALIASES.get(str(word).casefold())) in words:
        return meant
    folded = {candidate.casefold(): candidate for candidate in words}
    found = difflib.get_close_matches(str(word).casefold(), folded, n=1, cutoff=0.6)
    return folded[found[0]] if found else None


def choose(word: object, allowed: Iterable[str]) -> str:
    """The end of a message about a wrong word: what is allowed, and the nearest right spelling."""
    words = [str(candidate) for candidate in allowed]
    listed = ", ".join(words[: 4 * SHOWN]) + (" …" if len(words) > 4 * SHOWN else "")
    text = f"Allowed: {listed}." if words else "Nothing is allowed here."
    guess = nearest(word, words)
    return f"{text} Did you mean {guess!r}?" if guess else text


def found(value: object) -> str:
    """A value as a message shows it: with quotes where it is text, and not too long."""
    return shorten(repr(value), 80)


def _joined(problems: list[str]) -> str:
    if len(problems) == 1:
        return problems[0]
    lines = [f"{len(problems)} problems in the configuration:"]
    lines += [f"  - {problem}" for problem in problems[:SHOWN]]
    if len(problems) > SHOWN:
        lines.append(f"  … and {len(problems) - SHOWN} more")
    return "\n".join(lines)
