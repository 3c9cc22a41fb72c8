"""Packing one machine's results into a bundle."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gemmgrid import __version__
from gemmgrid.records import history
from gemmgrid.records.foreign_runs import is_elsewhere
from gemmgrid.records.run import SCHEMA_VERSION, SETTLED, now
from gemmgrid.report.bundles.layout import KIND, MACHINE_FILE, MANIFEST, SCHEMA, BundleError
from gemmgrid.report.bundles.redact import Redactor, identity
from gemmgrid.report.read import plan_file
from gemmgrid.report.read.scan import scan

_MOMENT = (1980, 1, 1, 0, 0, 0)
"""Every entry's time: when a file was copied here is nobody's business, and equal results pack
equally."""


def pack(results: Path, machine: str, out: Path, redactor: Redactor | None) -> dict[str, Any]:
    """Write the bundle of `results/<machine>`, whole or not at all; returns its manifest.

    redactor   None leaves paths as they are and names user and host in the manifest

    Lines of a history that are no runs stay here: the manifest counts them.
    """
    machines = sorted(path.parent.name for path in results.glob(f"*/{MACHINE_FILE}"))
    if not (results / machine).is_dir():
        raise BundleError(
            f"{results / machine} is not there. Machines: {', '.join(machines) or 'none'}"
        )
    files: dict[str, bytes] = {}
    counts: dict[str, int] = {}
    left_out = 0
    statuses: dict[str, str | None] = {}
    if redactor:
        for _, runs, _ in _histories(results, machine):
            redactor.learn(runs)
    for path, runs, problems in _histories(results, machine):
        left_out += problems
        if runs:
            name = path.relative_to(results).as_posix()
            kept = [redactor.run(run) if redactor else run for run in runs]
            files[name] = "".join(f"{history.dumps(run)}\n" for run in kept).encode()
            counts[name] = len(runs)
            own = [run for run in runs if not is_elsewhere(run)]
            statuses[name] = own[-1]["status"] if own else None
    if not files:
        raise BundleError(f"{results / machine} holds no run that could be packed")
    files |= _machine_file(results, machine, redactor)
    manifest = {
        "schema": SCHEMA,
        "kind": KIND,
        "gemmgrid": __version__,
        "run_schema": SCHEMA_VERSION,
        "machine": machine,
        "created_at": now(),
        **_completeness(results, machine, statuses),
        "left_out_lines": left_out,
        "redacted": redactor is not None,
        "identity": None if redactor else identity(),
        "files": [
            {
                "path": name,
                "bytes": len(content),
                "sha256": hashlib.sha256(content).hexdigest(),
                "runs": counts.get(name),
            }
            for name, content in sorted(files.items())
        ],
    }
    content = (json.dumps(manifest, indent=1) + "\n").encode()
    _write(out, {MANIFEST: content, **dict(sorted(files.items()))})
    return manifest


def _histories(results: Path, machine: str) -> Iterator[tuple[Path, list[dict[str, Any]], int]]:
    for file in scan(results).cells:
        if file.machine == machine:
            read = history.read(file.path)
            runs = [run for run in read.runs if run["backend"] == file.backend]
            runs = [run for run in runs if run["cell"].get("name") == file.cell.name]
            yield file.path, runs, len(read.problems) + len(read.runs) - len(runs)


def _machine_file(results: Path, machine: str, redactor: Redactor | None) -> dict[str, bytes]:
    path = results / machine / MACHINE_FILE
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    shown = redactor.machine(document) if redactor else document
    return {f"{machine}/{MACHINE_FILE}": (json.dumps(shown, indent=1) + "\n").encode()}


def _completeness(results: Path, machine: str, statuses: dict[str, str | None]) -> dict[str, Any]:
    """Whether every planned cell of the machine is settled; None where there is no plan for it.

    statuses   of the latest run that the machine itself made, by file; None where it made none
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


def _write(out: Path, files: dict[str, bytes]) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    beside = out.with_name(f".{out.name}.new")
    try:
        with zipfile.ZipFile(beside, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as bundle:
            for name, content in files.items():
                entry = zipfile.ZipInfo(name, _MOMENT)
                entry.external_attr = 0o644 << 16
                entry.compress_type = zipfile.ZIP_DEFLATED
                bundle.writestr(entry, content)
        beside.replace(out)
    finally:
        beside.unlink(missing_ok=True)
