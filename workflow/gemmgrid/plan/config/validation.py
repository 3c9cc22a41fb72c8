"""Schemas, and what is wrong with a document in words that help.

jsonschema finds the errors; this module says them: file and key, what was found, what is allowed,
the nearest right spelling. In a schema, `description` of a value is the text after "Allowed:".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from math import isfinite
from typing import Any

import yaml

from gemmgrid.plan.config.errors import choose, found
from gemmgrid.plan.config.sources import Key, Problems, as_keys
from gemmgrid.system.project import SCHEMAS

_TYPES = {
    "object": "a mapping (key: value)",
    "array": "a list",
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "nothing (null)",
}


@cache
def schema(name: str) -> dict[str, Any]:
    """A schema of this project by its name: config, backends, machines."""
    with (SCHEMAS / f"{name}.schema.yaml").open(encoding="utf-8") as stream:
        loaded: dict[str, Any] = yaml.load(
            stream, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        )
    return loaded


def validate(document: Any, name: str, problems: Problems) -> None:
    """Note in `problems` everything in which the document breaks the schema."""
    for key, number in _not_finite(document):
        problems.add(key, f"found {number}. Allowed: a finite number.", number)
    validator = _validator(name)
    for error in sorted(
        validator.iter_errors(document), key=lambda error: list(map(str, error.path))
    ):
        for key, text, value in _explain(error, as_keys(error.absolute_path)):
            problems.add(key, text, value)


def fill(document: Any, part: Mapping[str, Any]) -> Any:
    """The document with a schema's defaults where it says nothing, nested mappings included."""
    if not isinstance(document, dict):
        return document
    complete = dict(document)
    for key, below in part.get("properties", {}).items():
        if key in complete:
            complete[key] = fill(complete[key], below)
        elif "default" in below:
            complete[key] = fill(below["default"], below)
    return complete


def _not_finite(document: Any, key: Key = ()) -> Iterator[tuple[Key, float]]:
    """Infinities and NaN, which pass every bound of a schema or break JSON later."""
    if isinstance(document, float) and not isfinite(document):
        yield key, document
    elif isinstance(document, dict):
        for name, value in document.items():
            yield from _not_finite(value, (*key, str(name)))
    elif isinstance(document, list):
        for index, value in enumerate(document):
            yield from _not_finite(value, (*key, index))


@cache
def _validator(name: str) -> Any:
    # Imported here: 0.1 s that only a document in need of a check should pay.
    from jsonschema import Draft202012Validator

    return Draft202012Validator(schema(name))


def _explain(error: Any, key: Key) -> Iterator[tuple[Key, str, Any]]:
    """(place, message, value found) of one jsonschema error; several for unknown keys."""
    value, part = error.instance, error.schema
    match error.validator:
        case "additionalProperties":
            known = part.get("properties", {})
            for extra in sorted(map(str, value.keys() - known.keys())):
                yield (*key, extra), f"there is no key {extra!r} here. {choose(extra, known)}", None
        case "required":
            for missing in error.validator_value:
                if missing not in value:
                    yield key, f"the key {missing!r} is missing. {_allowed(part, missing)}", None
        case "propertyNames":
            yield key, f"{found(value)} cannot be a name here. {_bare(error.schema)}", None
        case "anyOf" | "oneOf":
            inner = _likely_branch(error)
            if inner:
                for deeper in inner:
                    yield from _explain(deeper, key + as_keys(deeper.relative_path))
            else:
                yield key, f"found {found(value)}. {_bare(part, value)}", value
        case "enum":
            yield key, f"found {found(value)}. {choose(value, error.validator_value)}", value
        case _:
            yield key, f"found {found(value)}. {_bare(part, value)}", value


def _likely_branch(error: Any) -> list[Any]:
    """The errors of the one alternative whose type fits what was found; empty where none does."""
    branches: dict[int, list[Any]] = {}
    for inner in error.context:
        branches.setdefault(inner.schema_path[0], []).append(inner)
    fitting = [
        errors
        for errors in branches.values()
        if not any(inner.validator == "type" and not inner.relative_path for inner in errors)
    ]
    deeper = [
        errors
        for errors in fitting
        if any(inner.relative_path for inner in errors)
        or any(inner.validator == "additionalProperties" for inner in errors)
    ]
    return deeper[0] if len(deeper) == 1 else []


def _allowed(part: dict[str, Any], name: str) -> str:
    return _bare(part.get("properties", {}).get(name, {}))


def _bare(part: dict[str, Any], value: Any = None) -> str:
    """What a schema allows, as a sentence; with the nearest word where it lists words."""
    words = [word for word in _words(part) if isinstance(word, str)]
    if "description" in part:
        text = f"Allowed: {part['description']}."
        guess = choose(value, words).partition("Did you mean")[2] if isinstance(value, str) else ""
        return f"{text} Did you mean{guess}" if guess else text
    if words:
        return choose(value, words)
    kind = part.get("type", [])
    kinds = [kind] if isinstance(kind, str) else kind
    text = " or ".join(_TYPES[one] for one in kinds) or "another value"
    for bound, phrase in (
        ("minimum", "at least {}"),
        ("exclusiveMinimum", "above {}"),
        ("maximum", "at most {}"),
        ("exclusiveMaximum", "below {}"),
        ("minItems", "with {} or more entries"),
    ):
        if bound in part:
            text += f", {phrase.format(part[bound])}"
    return f"Allowed: {text}."


def _words(part: dict[str, Any]) -> Iterator[Any]:
    yield from part.get("enum", [])
    if "const" in part:
        yield part["const"]
    for branch in [*part.get("anyOf", []), *part.get("oneOf", [])]:
        yield from _words(branch)
