"""What a bundle is: a zip file of one machine's results folder, with a manifest.

manifest.json, <machine>/machine.json and <machine>/<backend>/<cell>.jsonl, and nothing else. The
manifest names every other file with its size, SHA-256 and number of runs, says whether the
study was complete, and which schema the runs have.
"""

from __future__ import annotations

from pathlib import PurePosixPath

from gemmgrid.records.cell import Cell
from gemmgrid.records.names import name_problem

SCHEMA = 1
KIND = "gemmgrid-bundle"
MANIFEST = "manifest.json"
MACHINE_FILE = "machine.json"
MOST_FILES = 100_000
MOST_MANIFEST_BYTES = 32 << 20
MOST_LINE_BYTES = 16 << 20
MOST_FILE_BYTES = 256 << 20
MOST_BYTES = 8 << 30
"""Limits of what is unpacked: a bundle that claims more is no machine's results."""
MOST_RATIO = 100
"""Bytes that one byte of a bundle may become; runs of real results give about ten."""


class BundleError(ValueError):
    """The bundle cannot be made or taken in; the text says why and what to do."""


def is_bloated(size: int, compressed: int) -> bool:
    """Whether so few bytes must not become so many; a megabyte harms nobody."""
    return size > MOST_RATIO * compressed + (1 << 20)


def path_problem(path: str, machine: str) -> str | None:
    """Why a file of that path cannot be in a bundle of that machine, or None.

    Only plain names of machines, backends and cells pass, so nothing can leave the folder.
    """
    parts = path.split("/")
    if "\\" in path or "\0" in path or PurePosixPath(path).is_absolute() or ".." in parts:
        return "the path leaves the folder"
    if parts[0] != machine:
        return f"it is not in the folder of machine {machine}"
    if parts[1:] == [MACHINE_FILE]:
        return None
    if len(parts) != 3 or not parts[2].endswith(".jsonl"):
        return "it is neither machine.json nor a cell's file"
    if problem := name_problem(parts[1]):
        return f"not a backend's folder: {problem}"
    try:
        Cell.parse(parts[2].removesuffix(".jsonl"))
    except (ValueError, OverflowError) as error:
        return f"not a cell's file: {error}"
    return None
