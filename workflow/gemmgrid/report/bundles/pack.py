"""Packing one machine's results into a bundle: nothing goes in that would be refused elsewhere."""

from __future__ import annotations

import hashlib
import json
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gemmgrid import __version__
from gemmgrid.records import history
from gemmgrid.records.files import read_regular, reason
from gemmgrid.records.run import SCHEMA_VERSION, SETTLED
from gemmgrid.records.run_types import Run
from gemmgrid.records.shape import keys_of
from gemmgrid.report.bundles import archive, contents
from gemmgrid.report.bundles.contents import Entry, Runs, UnfitError
from gemmgrid.report.bundles.layout import (
    KIND,
    MACHINE_FILE,
    MANIFEST,
    MOST_FILE_BYTES,
    SCHEMA,
    BundleError,
    is_bloated,
)
from gemmgrid.report.bundles.redact import Redactor, identity
from gemmgrid.report.read import plan_file
from gemmgrid.report.read.scan import CellFile, Problem, scan

_MOMENT = (1980, 1, 1, 0, 0, 0)
"""Every entry's time: when a file was copied here is nobody's business, and equal results pack
equally."""
_UNIX = 3


@dataclass
class Packed:
    """What was packed: the bundle's manifest, and what stayed here and why. Lines that stand twice
    are packed once and are nobody's problem."""

    manifest: dict[str, Any]
    left_out: list[Problem] = field(default_factory=list)

    @property
    def runs(self) -> int:
        return sum(file["runs"] or 0 for file in self.manifest["files"])


def pack(results: Path, machine: str, out: Path, redactor: Redactor | None) -> Packed:
    """Write the bundle of `results/<machine>`, whole or not at all.

    redactor   None leaves everything as it is and names user and host in the manifest

    Only what `unpack` takes in goes into it, in the order of the files here.
    """
    machines = sorted(path.parent.name for path in results.glob(f"*/{MACHINE_FILE}"))
    if not (results / machine).is_dir():
        raise BundleError(
            f"{results / machine} is not there. Machines: {', '.join(machines) or 'none'}"
        )
    packing = _Packing(results, machine, redactor)
    out.parent.mkdir(parents=True, exist_ok=True)
    beside = out.with_name(f".{out.name}.new")
    try:
        with zipfile.ZipFile(beside, "w") as bundle:
            packing.write(bundle)
        with archive.opened(beside):  # as the receiver will
            pass
        beside.replace(out)
    finally:
        beside.unlink(missing_ok=True)
    return packing.packed


class _Packing:
    def __init__(self, results: Path, machine: str, redactor: Redactor | None) -> None:
        self._results, self._machine, self._redactor = results, machine, redactor
        self._files = [file for file in scan(results).cells if file.machine == machine]
        self._host = contents.machine_host(contents.entries_in(file.path for file in self._files))
        self.packed = Packed({"files": []})

    def write(self, bundle: zipfile.ZipFile) -> None:
        newest = ""
        statuses: dict[str, str] = {}
        for file in self._files:
            kept: list[bytes] = []
            latest: Entry | None = None
            for line, found in self._runs(file):
                kept.append(line + b"\n")
                newest = max(newest, found.moment)
                if found.own and (latest is None or found.moment >= latest.moment):
                    latest = found
            if kept:
                path = file.path.relative_to(self._results).as_posix()
                self._add(bundle, path, b"".join(kept), len(kept))
                if latest:
                    statuses[path] = latest.status
        if not self.packed.manifest["files"]:
            told = "; ".join(shown(problem) for problem in self.packed.left_out[:3])
            raise BundleError(
                f"{self._results / self._machine} holds no run that could be packed"
                + (f" ({told})" if told else "")
            )
        self._machine_file(bundle)
        self.packed.manifest = {
            "schema": SCHEMA,
            "kind": KIND,
            "gemmgrid": __version__,
            "run_schema": SCHEMA_VERSION,
            "machine": self._machine,
            "newest_run": newest,
            **_completeness(self._results, self._machine, statuses),
            "left_out_lines": len(self.packed.left_out),
            "redacted": self._redactor is not None,
            "identity": None if self._redactor else identity(),
            "files": sorted(self.packed.manifest["files"], key=lambda file: file["path"]),
        }
        _write(bundle, MANIFEST, _spell(self.packed.manifest))

    def _runs(self, file: CellFile) -> Iterator[tuple[bytes, Entry]]:
        """The lines of a history that can be packed, as they are packed; the rest is noted."""
        try:
            content = read_regular(file.path)
        except OSError as error:
            self._leave_out(file.path, None, reason(file.path, error))
            return
        runs = Runs(file.backend, file.cell.name)
        seen: set[bytes] = set()
        for number, line in contents.lines(content):
            fingerprint = hashlib.sha256(line.strip()).digest()
            if fingerprint in seen:
                continue
            seen.add(fingerprint)
            try:
                run, _ = contents.run_of(contents.parse(line))
                run = {key: value for key, value in run.items() if key in keys_of(Run)}
                packed = history.dumps(self._redactor.run(run) if self._redactor else run).encode()
                found = runs.read(packed)
            except UnfitError as error:
                self._leave_out(file.path, number, str(error))
                continue
            if found.own and found.host and found.host != self._host:
                told = f"it was made on host {found.host}, and most here on {self._host}"
                self._leave_out(file.path, number, told)
                continue
            yield packed, found

    def _machine_file(self, bundle: zipfile.ZipFile) -> None:
        path = self._results / self._machine / MACHINE_FILE
        try:
            document = contents.machine_file(read_regular(path))
        except FileNotFoundError:
            return
        except OSError as error:
            return self._leave_out(path, None, reason(path, error))
        except UnfitError as error:
            return self._leave_out(path, None, str(error))
        shown = self._redactor.machine(document) if self._redactor else document
        self._add(bundle, f"{self._machine}/{MACHINE_FILE}", _spell(shown), None)

    def _add(self, bundle: zipfile.ZipFile, name: str, content: bytes, runs: int | None) -> None:
        if len(content) > MOST_FILE_BYTES:
            raise BundleError(f"{name} is larger than {MOST_FILE_BYTES} bytes")
        _write(bundle, name, content)
        checksum = hashlib.sha256(content).hexdigest()
        listed = {"path": name, "bytes": len(content), "sha256": checksum, "runs": runs}
        self.packed.manifest["files"].append(listed)

    def _leave_out(self, path: Path, line: int | None, why: str) -> None:
        self.packed.left_out.append(Problem(path.as_posix(), line, why))


def _completeness(results: Path, machine: str, statuses: Mapping[str, str]) -> dict[str, Any]:
    """Whether every planned cell of the machine is settled; None where there is no plan for it.

    statuses   of the latest run that the machine itself made, by file
    """
    plan = plan_file.read(results)
    planned = [cell for cell in plan.cells if cell.machine == machine] if plan else []
    wanted = [
        f"{machine}/{cell.backend}/{cell.cell.name}.jsonl"
        for cell in planned
        if cell.status == "planned"
    ]
    settled = sum(statuses.get(name) in SETTLED for name in wanted)
    return {
        "study": plan.study if plan and wanted else None,
        "complete": settled == len(wanted) if wanted else None,
        "planned": len(wanted) or None,
        "settled": settled if wanted else None,
    }


def shown(problem: Problem) -> str:
    """A line that stayed here, and why."""
    line = "" if problem.line is None else f", line {problem.line}"
    return f"{problem.file}{line}: {problem.problem}"


def _spell(document: Any) -> bytes:
    return (json.dumps(document, indent=1) + "\n").encode()


def _write(bundle: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, _MOMENT)
    entry.create_system, entry.external_attr = _UNIX, 0o644 << 16
    # What shrinks too well would be taken for a bomb.
    bomb = is_bloated(len(content), len(zlib.compress(content, 6))) if len(content) >> 20 else False
    bundle.writestr(entry, content, zipfile.ZIP_STORED if bomb else zipfile.ZIP_DEFLATED, 6)
