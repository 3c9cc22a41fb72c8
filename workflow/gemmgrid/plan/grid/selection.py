"""Which cells a condition means: used by `exclude`, by `select`, and by whatever picks cells.

A selector names axes and what they may be. All its conditions must hold. One condition is a value,
a list of which one must fit, a pattern (`torch-*`), or comparisons that must all hold
(`">=1024 <4096"`). As text: `backend=torch-cuda dtype=float16,bfloat16 n>=1024`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import translate
from typing import Any

from gemmgrid.plan.config.errors import choose
from gemmgrid.plan.config.sources import typed
from gemmgrid.records.cell import (
    CALLS,
    DTYPES,
    INPUTS,
    LAYOUTS,
    MODES,
    OPTION_NAMES,
    ROUTINES,
    Cell,
)

CELL_AXES = ("routine", "dtype", "m", "n", "k", "threads")
PLACE_AXES = ("machine", "platform", "backend", "adapter", "device")
AXES = (*PLACE_AXES, *CELL_AXES, *OPTION_NAMES)
NUMERIC = frozenset({"m", "n", "k", "threads", "batch", "pad", "alpha", "beta"})
SWITCHES = frozenset({"reuse", "unaligned", "alloc", "cold"})
WORDS: dict[str, tuple[str, ...]] = {
    "routine": ROUTINES,
    "dtype": DTYPES,
    "inputs": INPUTS,
    "call": CALLS,
    "mode": MODES,
    "layout": LAYOUTS,
    "device": ("cpu", "cuda", "mps", "gpu"),
}
"""Axes with a fixed vocabulary, in which a misspelt word would select nothing, silently."""

Test = Callable[[Any], bool]

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "!=": operator.ne,
    "==": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
}
_COMPARISON = re.compile(r"(>=|<=|!=|==|>|<)\s*(-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)")
_CLAUSE = re.compile(r"([A-Za-z_]+)\s*(>=|<=|!=|==|=|>|<)\s*(.*)", re.DOTALL)


@dataclass(frozen=True)
class Selector:
    """Conditions that must all hold: on where a cell runs, and on the cell itself."""

    place: tuple[tuple[str, Test], ...]
    cell: tuple[tuple[str, Test], ...]

    def matches_place(self, place: Mapping[str, Any]) -> bool:
        """Whether the conditions on machine, platform, backend, adapter and device hold."""
        return all(test(place[axis]) for axis, test in self.place)

    def matches_cell(self, cell: Cell) -> bool:
        """Whether the conditions on the cell hold; an axis that it lacks (k of a gemv) fails."""
        for axis, test in self.cell:
            value = getattr(cell.options if axis in OPTION_NAMES else cell, axis)
            if value is None or not test(value):
                return False
        return True

    def matches(self, place: Mapping[str, Any], cell: Cell) -> bool:
        """Whether a cell at a place (a mapping of PLACE_AXES) is meant."""
        return self.matches_place(place) and self.matches_cell(cell)


def parse_selector(conditions: Mapping[str, Any] | str, backends: Iterable[str] = ()) -> Selector:
    """The selector of a mapping or a text; ValueError names the condition that is wrong.

    With `backends`, every backend named must be one of them (or a pattern that fits one).
    """
    if isinstance(conditions, str):
        conditions = _from_text(conditions)
    known = tuple(backends)
    place: list[tuple[str, Test]] = []
    cell: list[tuple[str, Test]] = []
    for axis, wanted in conditions.items():
        if axis not in AXES:
            raise ValueError(f"there is no axis {axis!r} to select by. {choose(axis, AXES)}")
        vocabulary = known if axis == "backend" and known else WORDS.get(axis, ())
        test = _test(axis, wanted, vocabulary)
        (place if axis in PLACE_AXES else cell).append((axis, test))
    return Selector(tuple(place), tuple(cell))


def matching_names(pattern: str, names: Iterable[str]) -> list[str]:
    """The names that a name or pattern (`torch-*`) means, in the order of `names`."""
    fits = re.compile(translate(pattern)).match
    return [name for name in names if fits(name)]


def is_pattern(text: str) -> bool:
    """Whether a text stands for several names: it has *, ? or [ in it."""
    return any(sign in text for sign in "*?[")


def _from_text(text: str) -> dict[str, Any]:
    """`backend=a,b n>=1024 n<4096` as a mapping; conditions on one axis join to a comparison."""
    conditions: dict[str, Any] = {}
    for part in text.split():
        clause = _CLAUSE.fullmatch(part)
        if not clause or not clause[3]:
            raise ValueError(
                f"{part!r} is not a condition. Allowed: axis=value, axis=value,value or a "
                "comparison such as n>=1024, separated by spaces, without spaces inside."
            )
        axis, sign, values = clause.groups()
        if sign in ("=", "=="):
            value: Any = [typed(one) for one in values.split(",")]
        else:
            value = f"{sign}{values}"
        if axis not in conditions:
            conditions[axis] = value
        elif isinstance(conditions[axis], str) and isinstance(value, str):
            conditions[axis] = f"{conditions[axis]} {value}"
        else:
            raise ValueError(f"{axis!r} stands twice: write its values once, separated by commas")
    return conditions


def _test(axis: str, wanted: Any, vocabulary: tuple[str, ...]) -> Test:
    """A function that says whether a value of the axis is wanted."""
    tests = [
        _single(axis, one, vocabulary) for one in (wanted if isinstance(wanted, list) else [wanted])
    ]
    if len(tests) == 1:
        return tests[0]
    return lambda value: any(test(value) for test in tests)


def _single(axis: str, wanted: Any, vocabulary: tuple[str, ...]) -> Test:
    if axis in NUMERIC:
        return _numeric(axis, wanted)
    if axis in SWITCHES:
        if not isinstance(wanted, bool):
            raise ValueError(f"{axis} is {wanted!r}. Allowed: true, false.")
        return lambda value: value is wanted
    text = str(wanted)
    negated = text.startswith("!=")
    text = text.removeprefix("!=").strip() if negated else text
    if text[:1] in "<>=":
        raise ValueError(f"{axis} is {text!r}, and only numbers can be compared with < and >")
    if vocabulary and not matching_names(text, vocabulary):
        raise ValueError(f"{axis} is {text!r}. {choose(text, vocabulary)}")
    fits = re.compile(translate(text)).match
    return lambda value: (fits(str(value)) is None) == negated


def _numeric(axis: str, wanted: Any) -> Test:
    if isinstance(wanted, bool) or (isinstance(wanted, str) and not _is_comparison(wanted)):
        raise ValueError(
            f"{axis} is {wanted!r}. Allowed: a number, a list of numbers, or comparisons such as "
            "'>=1024' and '>=1024 <4096'."
        )
    if not isinstance(wanted, str):
        return lambda value: bool(value == wanted)
    bounds = [(_COMPARISONS[sign], float(number)) for sign, number in _COMPARISON.findall(wanted)]
    return lambda value: all(compare(value, number) for compare, number in bounds)


def _is_comparison(text: str) -> bool:
    return bool(_COMPARISON.search(text)) and not _COMPARISON.sub("", text).strip(" ,")
