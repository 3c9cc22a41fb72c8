"""The types of a run, the published schema and docs/records.md name the same keys."""

from __future__ import annotations

import re
import types
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, is_typeddict

import pytest
import yaml

from gemmgrid.records.run import STATUSES
from gemmgrid.records.run_types import Promise, Run, Slurm, Status
from gemmgrid.records.shape import keys_of, required

ROOT = Path(__file__).parents[2]
SCHEMA = yaml.safe_load((ROOT / "workflow/schemas/run.schema.yaml").read_text(encoding="utf-8"))
DOCS = (ROOT / "docs/records.md").read_text(encoding="utf-8")
WORDS = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def options(shape: Any) -> list[Any]:
    if get_origin(shape) is Annotated:
        return options(get_args(shape)[0])
    if get_origin(shape) in (Union, types.UnionType):
        return [inner for one in get_args(shape) for inner in options(one)]
    return [shape]


def kinds(shape: Any) -> set[str]:
    """What JSON calls the values of a type; empty for anything."""
    found = set()
    for one in options(shape):
        if one is Any:
            return set()
        if is_typeddict(one) or get_origin(one) is dict:
            found.add("object")
        elif get_origin(one) is list:
            found.add("array")
        elif get_origin(one) is Literal:
            found.add("string")
        else:
            found.add(WORDS[one])
    return found


def told(node: dict[str, Any]) -> set[str]:
    """The same of a node of the schema."""
    if "enum" in node:
        return {"null" if one is None else "string" for one in node["enum"]}
    if "const" in node:
        return {WORDS[type(node["const"])]}
    kind = node.get("type", [])
    return set(kind) if isinstance(kind, list) else {kind}


def differences(shape: Any, node: dict[str, Any], where: str) -> list[str]:
    """Where a type and a node of the schema do not say the same."""
    if "$ref" in node:
        node = SCHEMA["$defs"][node["$ref"].removeprefix("#/$defs/")]
    found = []
    if kinds(shape) != told(node):
        found.append(f"{where}: {sorted(kinds(shape))}, in the schema {sorted(told(node))}")
    for one in options(shape):
        if get_origin(one) is Literal:
            there = {value for value in node.get("enum", []) if value is not None}
            if set(get_args(one)) != there:
                found.append(f"{where}: {sorted(get_args(one))}, in the schema {sorted(there)}")
        elif get_origin(one) is list and kinds(get_args(one)[0]):
            found += differences(get_args(one)[0], node.get("items", {}), f"{where}[]")
        elif is_typeddict(one):
            keys, there = keys_of(one), node.get("properties", {})
            found += [f"{where}.{key}: not in the schema" for key in keys.keys() - there.keys()]
            found += [f"{where}.{key}: only in the schema" for key in there.keys() - keys.keys()]
            if required(one) != set(node.get("required", ())):
                both = sorted(required(one) ^ set(node.get("required", ())))
                found.append(f"{where}: {both} required by one only")
            for key in keys.keys() & there.keys():
                found += differences(keys[key], there[key], f"{where}.{key}")
    return found


def unnamed(value: Any, shape: Any, where: str = "run") -> list[str]:
    """Keys in a real run that no type names."""
    found = []
    for one in options(shape):
        if is_typeddict(one) and isinstance(value, dict):
            keys = keys_of(one)
            found += [f"{where}.{key}" for key in value.keys() - keys.keys()]
            for key in value.keys() & keys.keys():
                found += unnamed(value[key], keys[key], f"{where}.{key}")
        elif get_origin(one) is list and isinstance(value, list):
            for part in value:
                found += unnamed(part, get_args(one)[0], f"{where}[]")
    return found


def test_types_and_schema_say_the_same() -> None:
    assert sorted(differences(Run, SCHEMA, "run")) == []


@pytest.mark.parametrize(
    ("broken", "named"),
    [
        ({"properties": {"id": {"type": "integer"}}}, "run.id: ['string']"),
        ({"properties": {"new": {"type": "string"}}}, "run.new: only in the schema"),
        ({"required": []}, "required by one only"),
    ],
)
def test_a_difference_would_be_seen(broken: dict[str, Any], named: str) -> None:
    assert any(named in text for text in differences(Run, SCHEMA | broken, "run"))


def test_the_statuses_are_those_of_the_vocabulary() -> None:
    assert get_args(Status) == tuple(STATUSES)


def named(heading: str) -> set[str]:
    """Keys in the first column of the table under a heading of docs/records.md."""
    section = re.split(r"^#+ ", DOCS.split(f"# {heading}\n", 1)[1], maxsplit=1, flags=re.M)[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {key for row in rows for key in re.findall(r"`([a-z_]+)`", row)}


@pytest.mark.parametrize(
    ("heading", "shape"), [("A run", Run), ("`slurm`", Slurm), ("`promise`", Promise)]
)
def test_the_docs_name_every_key(heading: str, shape: Any) -> None:
    assert named(heading) == keys_of(shape).keys()
