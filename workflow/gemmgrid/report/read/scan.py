"""What lies under results/: machines, cells' files, and whatever does not belong there.

results/<machine>/machine.json and results/<machine>/<backend>/<cell>.jsonl are read; hidden files,
results/tables and a machine's notes (*.md, *.txt) are passed over; everything else becomes a
problem. Nothing is ever changed or followed out of this layout.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gemmgrid.records.cell import Cell
from gemmgrid.records.names import name_problem
from gemmgrid.report.read.fields import clean

TABLES = "tables"
MACHINE_FILE = "machine.json"
_NOTES = (".md", ".txt")


@dataclass(frozen=True, order=True)
class Problem:
    """A file, or a line of it, that could not be used, and why."""

    file: str
    line: int | None
    problem: str


@dataclass(frozen=True)
class CellFile:
    """A file that, by its place and name, is a cell's history."""

    machine: str
    backend: str
    cell: Cell
    path: Path


@dataclass
class Scan:
    """The folders and files found, and what was set aside."""

    machines: list[str] = field(default_factory=list)
    cells: list[CellFile] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def scan(results: Path) -> Scan:
    """Look through `results`; a missing folder holds nothing."""
    found = Scan()
    for machine in _folders(results, found, "machine", {TABLES}):
        found.machines.append(machine.name)
        for backend in _folders(Path(machine.path), found, "backend", {MACHINE_FILE}):
            for file in _entries(Path(backend.path), found):
                _scan_cell(found, machine.name, backend.name, file)
    return found


def _folders(
    folder: Path, found: Scan, kind: str, passed_over: set[str]
) -> Iterator[os.DirEntry[str]]:
    """The folders of machines, or of backends, by name; what else lies there is set aside."""
    for entry in _entries(folder, found):
        if entry.name in passed_over:
            continue
        if not _is_folder(entry):
            if not entry.name.endswith(_NOTES):
                _set_aside(found, entry, f"not in a {kind}'s folder: ignored")
        elif problem := name_problem(entry.name):
            _set_aside(found, entry, f"not a {kind}'s folder: {problem}")
        else:
            yield entry


def _scan_cell(found: Scan, machine: str, backend: str, file: os.DirEntry[str]) -> None:
    if _is_folder(file):
        _set_aside(found, file, "a folder inside a backend's folder: ignored")
    elif not file.name.endswith(".jsonl"):
        _set_aside(found, file, "not a cell's file (<cell>.jsonl): ignored")
    else:
        try:
            cell = tabulable(Cell.parse(file.name.removesuffix(".jsonl")))
        except (ValueError, OverflowError) as error:
            _set_aside(found, file, f"not a cell's file: {error}")
        else:
            found.cells.append(CellFile(machine, backend, cell, Path(file.path)))


def tabulable(cell: Cell) -> Cell:
    """The cell, if its numbers fit the tables' 64-bit columns; ValueError where they do not."""
    if max(*cell.shape, cell.threads, cell.options.batch) >= 2**63:
        raise ValueError("its numbers are beyond 64 bits")
    return cell


def _entries(folder: Path, found: Scan) -> Iterator[os.DirEntry[str]]:
    """The folder's visible entries by name; a folder that cannot be listed is a problem."""
    try:
        with os.scandir(folder) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    except OSError as error:
        problem = f"cannot be listed: {error.strerror}"
        found.problems.append(Problem(clean(folder.as_posix()), None, problem))
        return
    yield from (entry for entry in listed if not entry.name.startswith("."))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _set_aside(found: Scan, entry: os.DirEntry[str], problem: str) -> None:
    found.problems.append(Problem(clean(Path(entry.path).as_posix()), None, clean(problem)))
