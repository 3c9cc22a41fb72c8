"""Taking in someone else's bundle: everything is checked before anything is written."""

from __future__ import annotations

import fcntl
import hashlib
import json
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gemmgrid.records import history
from gemmgrid.records.foreign_runs import is_elsewhere, latest_own
from gemmgrid.records.names import name_problem
from gemmgrid.records.run import NotARunError, migrate, problems_of
from gemmgrid.report.bundles import layout
from gemmgrid.report.bundles.layout import BundleError
from gemmgrid.report.read.fields import clean

LOCK = Path(".snakemake/gemmgrid.lock")
"""What a running workflow holds in its folder."""
SHOWN = 5
UNREADABLE = (
    *(zipfile.BadZipFile, zlib.error, EOFError, OSError),
    *(NotImplementedError, RuntimeError, UnicodeDecodeError, OverflowError),
)
"""What zipfile raises for a damaged, encrypted or exotic file."""


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
    (by their id) are passed over, no line that is here is changed, and histories stay in the order
    of time.
    """
    manifest, files = read(bundle)
    machine = name or manifest["machine"]
    if problem := name_problem(machine):
        raise BundleError(f"machine: {problem}")
    arrived = Arrived(machine)
    cells: dict[tuple[str, str], list[tuple[str, bytes]]] = {}
    hosts: set[str] = set()
    elsewhere = 0
    for path, content in files.items():
        _, *rest = path.split("/")
        if rest == [layout.MACHINE_FILE]:
            _check_machine_file(path, content)
        else:
            runs = _check_history(path, content)
            own = [run for run, _ in runs if not is_elsewhere(run)]
            hosts |= {host for run in own if (host := _host(run))}
            elsewhere += len(runs) - len(own)
            cells[rest[0], rest[1]] = [(f"{run['started_at']}", line) for run, line in runs]
    if manifest.get("complete") is False:
        arrived.notes.append(
            f"the bundle is partial: {manifest.get('settled')} of {manifest.get('planned')} "
            "planned cells are settled"
        )
    if elsewhere:
        arrived.notes.append(
            f"{elsewhere} of its runs were made on another machine than {manifest['machine']}: "
            "the report shows them apart"
        )
    with _alone():
        folder = _inside(results, machine)
        _same_hardware(folder, machine, hosts)
        for (backend, file), lines in cells.items():
            _merge(_inside(results, machine, backend, file), lines, arrived)
        described = files.get(f"{manifest['machine']}/{layout.MACHINE_FILE}")
        target = _inside(results, machine, layout.MACHINE_FILE)
        if described and not target.exists():
            history.write_atomically(target, described)
            arrived.machine_file = True
    return arrived


def read(bundle: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The manifest and the files that it names, checked: paths, sizes, checksums, completeness."""
    try:
        with zipfile.ZipFile(bundle) as opened:
            entries = opened.infolist()
            _check_entries(bundle, entries)
            manifest = _manifest(
                bundle, _content(opened, layout.MANIFEST, layout.MOST_MANIFEST_BYTES)
            )
            return manifest, _files(opened, manifest, {entry.filename for entry in entries})
    except FileNotFoundError:
        raise BundleError(f"{bundle} is not there") from None
    except UNREADABLE as error:
        raise BundleError(f"{bundle} is no readable zip file: {error}") from None


def _check_entries(bundle: Path, entries: list[zipfile.ZipInfo]) -> None:
    names = [entry.filename for entry in entries]
    if len(names) > layout.MOST_FILES:
        raise BundleError(f"{bundle} holds {len(names)} files, more than {layout.MOST_FILES}")
    folded = {name.casefold() for name in names}
    if len(folded) != len(names):
        raise BundleError(f"{bundle} holds a file twice")
    if layout.MANIFEST not in names:
        raise BundleError(f"{bundle} has no {layout.MANIFEST}: it is not a gemmgrid bundle")
    for entry in entries:
        mode = entry.external_attr >> 16
        if entry.is_dir() or (mode and stat.S_IFMT(mode) not in (0, stat.S_IFREG)):
            raise BundleError(f"{clean(entry.filename)} is no plain file: refused")
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise BundleError(f"{clean(entry.filename)} is compressed in another way: refused")
        if entry.file_size > layout.MOST_FILE_BYTES:
            raise BundleError(f"{clean(entry.filename)} would be {entry.file_size} bytes: refused")
    if sum(entry.file_size for entry in entries) > layout.MOST_BYTES:
        raise BundleError(f"{bundle} would unpack to more than {layout.MOST_BYTES} bytes: refused")


def _content(opened: zipfile.ZipFile, name: str, most: int) -> bytes:
    """A file's bytes; what is declared about its size is not believed."""
    with opened.open(name) as stream:
        content = stream.read(most + 1)
    if len(content) > most:
        raise BundleError(f"{clean(name)} is larger than {most} bytes: refused")
    return content


def _manifest(bundle: Path, content: bytes) -> dict[str, Any]:
    document = _json(f"{bundle}: {layout.MANIFEST}", content)
    if not isinstance(document, dict) or document.get("kind") != layout.KIND:
        raise BundleError(f"{bundle}: {layout.MANIFEST} is not that of a gemmgrid bundle")
    version = document.get("schema")
    if type(version) is not int or not 1 <= version <= layout.SCHEMA:
        raise BundleError(
            f"{bundle} has bundle schema {version!r}; this gemmgrid reads up to {layout.SCHEMA}: "
            "update"
        )
    if problem := name_problem(document.get("machine")):
        raise BundleError(f"{bundle}: {layout.MANIFEST}: machine: {problem}")
    files = document.get("files")
    wanted = {"path": str, "bytes": int, "sha256": str}
    if not isinstance(files, list) or not all(
        isinstance(file, dict)
        and all(isinstance(file.get(key), kind) for key, kind in wanted.items())
        for file in files
    ):
        raise BundleError(f"{bundle}: {layout.MANIFEST} has no usable list of files")
    return document


def _files(
    opened: zipfile.ZipFile, manifest: dict[str, Any], present: set[str]
) -> dict[str, bytes]:
    listed = {file["path"]: file for file in manifest["files"]}
    for path in sorted(present | listed.keys()):
        if path == layout.MANIFEST:
            continue
        if problem := layout.path_problem(path, manifest["machine"]):
            raise BundleError(f"{clean(path)}: {problem}: refused")
        if path not in listed:
            raise BundleError(f"{path} is not in the manifest: refused")
        if path not in present:
            raise BundleError(f"{path} is in the manifest and missing from the bundle")
    found = {}
    for path, file in listed.items():
        content = _content(opened, path, min(max(file["bytes"], 0), layout.MOST_FILE_BYTES))
        if len(content) != file["bytes"]:
            raise BundleError(f"{path} is cut off: {len(content)} of {file['bytes']} bytes")
        if hashlib.sha256(content).hexdigest() != file["sha256"]:
            raise BundleError(f"{path} was changed or damaged: its checksum is another")
        found[path] = content
    return found


def _check_history(path: str, content: bytes) -> list[tuple[dict[str, Any], bytes]]:
    """The runs of a history, each with its line; BundleError at the first that is none."""
    _, backend, name = path.split("/")
    found = []
    seen: set[str] = set()
    for number, line in enumerate(content.split(b"\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        document = _json(where, line)
        try:
            run = migrate(document)
        except NotARunError as error:
            raise BundleError(f"{where}: {clean(str(error))}") from None
        problems = problems_of(document)
        if run["backend"] != backend:
            problems.append(f"a run of backend {run['backend']!r}")
        if f"{run['cell'].get('name')}.jsonl" != name:
            problems.append(f"a run of {run['cell'].get('name')!r}")
        if run["id"] in seen:
            problems.append(f"the id {run['id']!r} stands twice")
        if problems:
            told = "; ".join(clean(problem, 200) for problem in problems[:SHOWN])
            raise BundleError(f"{where}: {told}")
        seen.add(run["id"])
        found.append((run, line))
    if not found:
        raise BundleError(f"{path} holds no run")
    return found


def _check_machine_file(path: str, content: bytes) -> None:
    if not isinstance(_json(path, content), dict):
        raise BundleError(f"{path} is not a JSON object")


def _json(where: str, content: bytes) -> Any:
    try:
        return history.loads(content)
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{where} is not JSON: {clean(str(error), 200)}") from None


def _inside(results: Path, *parts: str) -> Path:
    """The path of a file under `results`; BundleError where a link there leads out of it."""
    path = results.joinpath(*parts)
    if not path.resolve().is_relative_to(results.resolve()):
        raise BundleError(f"{path} leads out of {results} (a link): refused")
    return path


def _same_hardware(folder: Path, machine: str, hosts: set[str]) -> None:
    here = set()
    for path in sorted(folder.glob("*/*.jsonl")):
        run, _ = latest_own(path)
        if run and (host := _host(run)):
            here.add(host)
    if here and hosts and not here & hosts:
        raise BundleError(
            f"{folder} holds results of other hardware ({', '.join(sorted(here))}) than the bundle "
            f"({', '.join(sorted(hosts))}): take it in under another name, as in "
            f"`make unpack BUNDLE=… AS={machine}-2`"
        )


def _host(run: dict[str, Any]) -> str | None:
    """The id of the host that made the run; None for a job that did not live to tell."""
    host = (run.get("host") or {}).get("id")
    return None if host is None else str(host)


def _merge(path: Path, lines: list[tuple[str, bytes]], arrived: Arrived) -> None:
    """Add the runs that are not here yet, in the order of time; what is here stays as it is."""
    earlier = _placed(path.read_bytes()) if path.exists() else []
    known = {identity for _, identity, _ in earlier}
    added = []
    for started, line in lines:
        identity = json.loads(line)["id"]
        if identity not in known:
            added.append((started, identity, line))
    arrived.known += len(lines) - len(added)
    arrived.runs += len(added)
    arrived.merged += bool(added and earlier)
    arrived.cells += not earlier
    if added:
        whole = sorted([*earlier, *added], key=lambda entry: entry[0])
        history.write_atomically(path, b"".join(line + b"\n" for _, _, line in whole))


def _placed(content: bytes) -> list[tuple[str, str | None, bytes]]:
    """Lines with their start and id; a line that is no run keeps its place after the one before."""
    placed: list[tuple[str, str | None, bytes]] = []
    moment = ""
    for line in content.split(b"\n"):
        if not line.strip():
            continue
        identity = None
        try:
            run = json.loads(line)
            moment = max(moment, run["started_at"])
            identity = run["id"] if isinstance(run["id"], str) else None
        except (ValueError, TypeError, KeyError, RecursionError):
            pass
        placed.append((moment, identity, line))
    return placed


@contextmanager
def _alone() -> Iterator[None]:
    """Keep a workflow of this folder out, as it keeps us out."""
    if not LOCK.exists():
        yield
        return
    with LOCK.open("a") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BundleError("a gemmgrid workflow is running in this folder: wait") from None
        yield
