"""References: which cells have to keep which rate, from config/references.yaml to single cells.

`gemmgrid resolve --root . --results results --out FILE` writes a JSON line
for each cell that a reference names; the report judges them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from gemmgrid.plan.config.errors import ConfigError
from gemmgrid.plan.config.registry import Backend, load_registry
from gemmgrid.plan.config.sources import Problems, Sources, read_yaml
from gemmgrid.plan.config.validation import fill, schema, validate
from gemmgrid.plan.grid.selection import Selector, parse_selector
from gemmgrid.records.cell import Cell
from gemmgrid.records.files import write_atomically

FILE = Path("config/references.yaml")

Place = tuple[str, str, Cell]
"""Machine, backend, cell."""


def resolve(root: Path, results: Path) -> list[dict[str, Any]]:
    """A document for each cell with a reference: machine, backend, cell, value, lower, upper.

    `entry` says where it stands. An exact reference stands though its cell was never measured; a
    selector, or a pattern of machines, that finds no cell gives one document with `cell` null.
    ConfigError says what is wrong with the file.
    """
    path = root / FILE
    if not path.exists():
        raise ConfigError(
            [
                f"{FILE} is missing. Write it from the present state with "
                "`snakemake --cores 1 references`, or by hand: see docs/changes.md."
            ]
        )
    sources = Sources([path], root, beyond="")
    entries = read_yaml(path, sources) or []
    problems = Problems(sources)
    validate(entries, "references", problems)
    problems.check()
    registry = load_registry(root)
    measured = list(_measured(results))
    found: list[dict[str, Any]] = []
    for index, entry in enumerate(entries):
        full = fill(entry, schema("references")["items"])
        try:
            places = _places(full, measured, registry)
        except ValueError as error:
            problems.add((index, "cell" if "cell" in full else "select"), str(error))
            continue
        where = sources.where((index,))
        band = {key: full[key] for key in ("value", "lower", "upper", "protocol") if key in full}
        band["entry"] = where
        found += [
            {"machine": machine, "backend": backend, "cell": cell.name, **band}
            for machine, backend, cell in places
        ]
        if not places:
            lost = {"machine": full["machine"], "backend": None, "cell": None}
            found.append({**lost, **band, "select": full.get("select") or full["cell"]})
    problems.check()
    return found


def _places(
    entry: Mapping[str, Any], measured: list[Place], registry: Mapping[str, Backend]
) -> list[Place]:
    """The cells that one entry means; ValueError where it is no cell or no selector."""
    if "cell" in entry:
        backend, _, name = entry["cell"].partition("/")
        cell = Cell.parse(name)
        if not set("*?[") & set(entry["machine"]):
            return [(entry["machine"], backend, cell)]
        return [
            place
            for place in measured
            if place[1:] == (backend, cell) and fnmatchcase(place[0], entry["machine"])
        ]
    selector = parse_selector(entry["select"])
    if any(axis in ("machine", "platform") for axis, _ in selector.place):
        raise ValueError("machine and platform cannot be selected here: 'machine' says which one")
    return [
        place
        for place in measured
        if fnmatchcase(place[0], entry["machine"]) and _matches(selector, place, registry)
    ]


def _matches(selector: Selector, place: Place, registry: Mapping[str, Backend]) -> bool:
    _, name, cell = place
    backend = registry.get(name)
    described = {
        "backend": name,
        "adapter": backend.adapter if backend else None,
        "device": backend.device if backend else None,
    }
    return selector.matches(described, cell)


def _measured(results: Path) -> Iterator[Place]:
    for path in sorted(results.glob("[!.]*/*/*.jsonl")):
        try:
            yield path.parent.parent.name, path.parent.name, Cell.parse(path.stem)
        except ValueError:
            continue


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="gemmgrid resolve", description=__doc__)
    parser.add_argument("--root", type=Path, default=Path())
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(arguments)
    try:
        found = resolve(given.root, given.results)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 1
    lines = "".join(f"{json.dumps(one)}\n" for one in found)
    write_atomically(given.out, lines.encode())
    return 0
