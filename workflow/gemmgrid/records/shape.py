"""Documents and the types that describe them: what fits, and what does not, in words.

Understands what records/run_types.py is written in: TypedDict, list, dict[str, …], unions,
Literal, Annotated with AtLeast or Pattern, Any and JSON's own types.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from gemmgrid.records.text import shorten


@dataclass(frozen=True)
class AtLeast:
    """A limit of numbers."""

    least: int

    def allows(self, value: Any) -> bool:
        return bool(value >= self.least)

    def __str__(self) -> str:
        return f"of at least {self.least}"


@dataclass(frozen=True)
class Pattern:
    """A limit of texts: the whole text matches."""

    pattern: str

    def allows(self, value: Any) -> bool:
        return re.fullmatch(self.pattern, value) is not None

    def __str__(self) -> str:
        return "of the form that it should have"


_KINDS: dict[Any, tuple[frozenset[type], str]] = {
    str: (frozenset({str}), "text"),
    int: (frozenset({int}), "a whole number"),
    float: (frozenset({float, int}), "a number"),
    bool: (frozenset({bool}), "true or false"),
    type(None): (frozenset({type(None)}), "null"),
}


@dataclass
class Sieve:
    """Lets through what is of its type; the rest becomes None, with a sentence in `problems`.

    Of a list of objects or texts only those are left out that are none. strict: a key that must be
    there and is not, a None where a value belongs, and a text of another form than its pattern, are
    problems, too. Keys that no type names pass.
    """

    strict: bool = False
    problems: list[str] = field(default_factory=list)

    def sift(self, value: Any, shape: Any, where: str = "") -> Any:
        """The value, or what is left of it; where: its dotted name."""
        if fits(shape, self.strict)(value) or (value is None and not self.strict):
            return value
        inner = next((one for one in _options(shape) if _is_container(one, value)), None)
        if inner is None:
            self.problems.append(f"{where or 'it'} is {describe(value)}, not {_words(shape)}")
            return None
        each = get_args(inner)[-1] if get_args(inner) else None
        if isinstance(value, list):
            kept = [
                (one, self.sift(one, each, f"{where}.{place}")) for place, one in enumerate(value)
            ]
            return [left for one, left in kept if left is not None or one is None]
        if each is not None:
            return {key: self.sift(one, each, f"{where}.{key}") for key, one in value.items()}
        return self._object(value, inner, f"{where}." if where else "")

    def _object(self, value: dict[str, Any], shape: Any, prefix: str) -> dict[str, Any]:
        keys = keys_of(shape)
        if self.strict:
            self.problems += [
                f"{prefix}{key} is missing" for key in keys if key in required(shape) - value.keys()
            ]
        return {
            key: self.sift(one, keys[key], f"{prefix}{key}") if key in keys else one
            for key, one in value.items()
        }


@cache
def fits(shape: Any, strict: bool = False) -> Callable[[Any], bool]:
    """A function that says whether a value is of this type; made once, for thousands of runs."""
    origin, arguments = get_origin(shape), get_args(shape)
    if origin is Annotated:
        inner = fits(arguments[0], strict)
        limits = [one for one in arguments[1:] if strict or isinstance(one, AtLeast)]
        return lambda value: inner(value) and all(limit.allows(value) for limit in limits)
    if origin in (Union, types.UnionType):
        if all(one in _KINDS for one in arguments):  # most of a run's values: one look at the type
            united = frozenset().union(*(_KINDS[one][0] for one in arguments))
            return lambda value: type(value) in united
        members = [fits(one, strict) for one in arguments]
        return lambda value: any(member(value) for member in members)
    if origin is Literal:
        return lambda value: type(value) is str and value in arguments
    if origin is list:
        if arguments[0] in _KINDS:  # samples: thousands of numbers
            kinds = _KINDS[arguments[0]][0]
            return lambda value: type(value) is list and kinds.issuperset(map(type, value))
        each = fits(arguments[0], strict)
        return lambda value: type(value) is list and all(map(each, value))
    if origin is dict:
        each = fits(arguments[1], strict)
        return lambda value: type(value) is dict and all(map(each, value.values()))
    if is_typeddict(shape):
        return _object_fits(shape, strict)
    if shape is Any:
        return lambda value: True
    allowed = _KINDS[shape][0]
    return lambda value: type(value) in allowed


def _object_fits(shape: Any, strict: bool) -> Callable[[Any], bool]:
    checks = {key: fits(one, strict) for key, one in keys_of(shape).items()}
    needed = required(shape)

    def lenient_fit(value: Any) -> bool:
        if type(value) is not dict:
            return False
        for key, one in value.items():
            if one is not None and key in checks and not checks[key](one):
                return False
        return True

    def strict_fit(value: Any) -> bool:
        return (
            type(value) is dict
            and needed <= value.keys()
            and all(checks[key](one) for key, one in value.items() if key in checks)
        )

    return strict_fit if strict else lenient_fit


@cache
def keys_of(shape: Any) -> dict[str, Any]:
    """A TypedDict's keys and their types."""
    hints = get_type_hints(shape, include_extras=True)
    return {
        key: get_args(one)[0] if get_origin(one) is NotRequired else one
        for key, one in hints.items()
    }


@cache
def required(shape: Any) -> frozenset[str]:
    """A TypedDict's keys that must be there."""
    if not shape.__total__:
        return frozenset()
    hints = get_type_hints(shape, include_extras=True)
    return frozenset(key for key, one in hints.items() if get_origin(one) is not NotRequired)


def describe(value: Any) -> str:
    """A value as a message shows it."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, int) and abs(value) >= 10**30:
        return "a huge number"
    return shorten(repr(value), 60)


def _options(shape: Any) -> tuple[Any, ...]:
    return get_args(shape) if get_origin(shape) in (Union, types.UnionType) else (shape,)


def _is_container(shape: Any, value: Any) -> bool:
    """Whether the value is an object or list of this type whose parts can be told good from bad.

    Of a list of numbers all are good or none: they stand beside those of other lists.
    """
    if isinstance(value, list):
        return get_origin(shape) is list and _plain(get_args(shape)[0]) not in (int, float)
    return isinstance(value, dict) and (get_origin(shape) is dict or is_typeddict(shape))


def _plain(shape: Any) -> Any:
    return get_args(shape)[0] if get_origin(shape) is Annotated else shape


def _words(shape: Any) -> str:
    """What a type asks for, as a message says it."""
    words = []
    for one in _options(shape):
        plain, origin = _plain(one), get_origin(one)
        if origin is Annotated:
            words.append(" ".join([_KINDS[plain][1], *map(str, get_args(one)[1:])]))
        elif origin is Literal:
            words.append(f"one of {', '.join(get_args(one))}")
        elif origin is list:
            item = _KINDS.get(_plain(get_args(one)[0]))
            words.append(f"a list{f' of which each is {item[1]}' if item else ''}")
        elif origin is dict or is_typeddict(one):
            words.append("an object")
        elif one is not type(None):
            words.append(_KINDS[one][1])
    return " or ".join(words)
