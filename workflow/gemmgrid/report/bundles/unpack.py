"""Taking in someone else's bundle: everything is checked before anything is written."""

from __future__ import annotations

import fcntl
import heapq
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gemmgrid.records import history
from gemmgrid.records.files import read_regular, write_atomically
from gemmgrid.records.names import name_problem
from gemmgrid.records.text import count
from gemmgrid.report.bundles import archive, contents
from gemmgrid.report.bundles.archive import Archive
from gemmgrid.report.bundles.contents import Entry, Runs, UnfitError
from gemmgrid.report.bundles.layout import MACHINE_FILE, BundleError

LOCK = Path(".snakemake/gemmgrid.lock")
"""What a running workflow holds in its folder."""


@dataclass
class Arrived:
    """What came in. cells and runs are new here; known: runs that were here already."""

    machine: str
    cells: int = 0
    merged: int = 0
    runs: int = 0
    known: int = 0
    machine_file: bool = False
    notes: list[str] = field(default_factory=list)


def unpack(bundle: Path, results: Path, name: str | None = None) -> Arrived:
    """Merge a bundle into `results`, under the machine's own name or another one.

    BundleError says what is wrong with it; then nothing was written. Runs that are here already
    (by their id) are passed over, and no line that is here is changed or moved.
    """
    with archive.opened(bundle) as opened:
        machine = name or opened.machine
        if problem := name_problem(machine):
            raise BundleError(f"machine: {problem}")
        found = {path: _entries(opened, path) for path in opened.files if path.endswith(".jsonl")}
        described = _machine_file(opened)
        entries = [one for runs in found.values() for one in runs]
        _insist_on_one_host(entries)
        arrived = Arrived(machine, notes=_notes(opened, entries))
        with _alone():
            targets = {path: _inside(results, machine, *path.split("/")[1:]) for path in found}
            target = _inside(results, machine, MACHINE_FILE)
            _insist_on_same_machine(results / machine, opened, entries, described, bool(name))
            for path, runs in found.items():
                _merge(targets[path], opened.lines(path), runs, arrived)
            if described and not target.exists():
                write_atomically(target, described)
                arrived.machine_file = True
    return arrived


def _entries(opened: Archive, path: str) -> list[Entry]:
    """The runs of a history; BundleError at the first line that is none."""
    _, backend, file = path.split("/")
    runs = Runs(backend, file.removesuffix(".jsonl"))
    found = []
    for number, line in opened.lines(path):
        try:
            found.append(runs.read(line))
        except UnfitError as error:
            raise BundleError(f"{path}, line {number}: {error}") from None
    if not found:
        raise BundleError(f"{path} holds no run")
    return found


def _machine_file(opened: Archive) -> bytes | None:
    path = f"{opened.machine}/{MACHINE_FILE}"
    if path not in opened.files:
        return None
    content = opened.content(path)
    try:
        contents.machine_file(content)
    except UnfitError as error:
        raise BundleError(f"{path}: {error}") from None
    return content


def _notes(opened: Archive, entries: list[Entry]) -> list[str]:
    notes = []
    if opened.manifest.get("complete") is False:
        settled, planned = (opened.manifest.get(key) for key in ("settled", "planned"))
        notes.append(f"the bundle is partial: {settled} of {planned} planned cells are settled")
    if elsewhere := sum(not one.own for one in entries):
        notes.append(
            f"{elsewhere} of its runs were made on another machine than {opened.machine}: "
            "the report shows them apart"
        )
    return notes


def _insist_on_one_host(entries: list[Entry]) -> None:
    hosts = sorted({one.host for one in entries if one.own and one.host})
    if len(hosts) > 1:
        counted = (
            f"{host} ({count('run', sum(one.own and one.host == host for one in entries))})"
            for host in hosts
        )
        raise BundleError(
            f"the bundle passes runs of {len(hosts)} hosts for one machine's: {', '.join(counted)}:"
            " refused"
        )


def _insist_on_same_machine(
    folder: Path, opened: Archive, entries: list[Entry], described: bytes | None, chosen: bool
) -> None:
    """BundleError where the folder here is another computer's, or may be and nobody chose it."""
    here = contents.entries_in(folder.glob("*/*.jsonl"))
    there_host, here_host = contents.machine_host(entries), contents.machine_host(here)
    other = f"{folder.name}-2"
    if here_host and there_host and here_host != there_host:
        raise BundleError(
            f"{folder} holds results of other hardware ({here_host}) than the bundle "
            f"({there_host}): take it in under another name, as in "
            f"`make unpack BUNDLE=… AS={other}`"
        )
    if chosen or not here or {one.id for one in here} & {one.id for one in entries}:
        return
    moments = [_described_at(described), _described_at(_read(folder / MACHINE_FILE))]
    if None in moments or moments[0] != moments[1]:
        raise BundleError(
            f"{folder} and the bundle are of equal hardware and share no run: they may come from "
            f"two computers. `AS={other}` keeps them apart, as in `make unpack BUNDLE=… "
            f"AS={other}`; `AS={folder.name}` says that they are one machine and puts them together"
        )


def _described_at(content: bytes | None) -> Any:
    """When a machine.json was first written, which no two computers share; None if not known."""
    try:
        return contents.machine_file(content or b"").get("recorded_at")
    except UnfitError:
        return None


def _read(path: Path) -> bytes | None:
    try:
        return read_regular(path)
    except OSError:
        return None


def _inside(results: Path, *parts: str) -> Path:
    """The path of a file under `results`; BundleError where what is there must not be written."""
    path = results.joinpath(*parts)
    if not path.resolve().is_relative_to(results.resolve()):
        raise BundleError(f"{path} leads out of {results} (a link): refused")
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise BundleError(f"{path} is no plain file: refused")
    return path


def _merge(
    path: Path, lines: Iterator[tuple[int, bytes]], entries: list[Entry], arrived: Arrived
) -> None:
    """Add the runs that are not here yet; each side's lines stay in their order."""
    earlier = _placed(read_regular(path)) if path.exists() else []
    known = {identity for _, identity, _ in earlier}
    added = [
        (found.moment, found.id, line)
        for (_, line), found in zip(lines, entries, strict=True)
        if found.id not in known
    ]
    arrived.known += len(entries) - len(added)
    arrived.runs += len(added)
    arrived.merged += bool(added and earlier)
    arrived.cells += not earlier
    if added:
        whole = heapq.merge(earlier, added, key=lambda entry: entry[0])
        write_atomically(path, b"".join(line + b"\n" for _, _, line in whole))


def _placed(content: bytes) -> list[tuple[str, str | None, bytes]]:
    """Lines with their time and id; a line that is no run keeps its place after the one before."""
    placed: list[tuple[str, str | None, bytes]] = []
    moment = ""
    for _, line in contents.lines(content):
        identity = None
        try:
            run, _ = contents.run_of(contents.parse(line))
            moment, identity = max(moment, history.moment(run)), run["id"]
        except UnfitError:
            pass
        placed.append((moment, identity, line))
    return placed


@contextmanager
def _alone() -> Iterator[None]:
    """Keep a workflow of this folder out, as it keeps us out."""
    if not LOCK.exists():
        yield
        return
    with LOCK.open("a", encoding="utf-8") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BundleError("a gemmgrid workflow is running in this folder: wait") from None
        yield
