"""A stamp of all results: tables made from results of another stamp are out of date.

`gemmgrid stamp --results results --plan DIGEST --out FILE` writes it. Times of
files decide nothing, so results that were copied, cloned or unpacked count as what they are.
"""

from __future__ import annotations

import argparse
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from gemmgrid.records.files import write_atomically

TAIL = 256
"""Bytes of a file's end that are looked at beside its name and size."""


def stamp(results: Path, plan: str) -> str:
    """A digest of the histories and machine files under `results`, and of the plan's digest."""
    found = hashlib.sha256(plan.encode())
    for file in sorted(_files(results)):
        with file.open("rb") as content:
            size = content.seek(0, os.SEEK_END)
            content.seek(max(0, size - TAIL))
            found.update(f"\n{file.relative_to(results)}\0{size}\0".encode())
            found.update(content.read())
    return found.hexdigest()


def _files(results: Path) -> Iterator[Path]:
    yield from results.glob("[!.]*/*/*.jsonl")
    yield from results.glob("[!.]*/machine.json")


def read(file: Path) -> str | None:
    """The stamp that a file holds; None without one."""
    try:
        return file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="gemmgrid stamp", description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--plan", required=True, help="the plan's digest")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(arguments)
    write_atomically(given.out, f"{stamp(given.results, given.plan)}\n".encode())
    return 0
