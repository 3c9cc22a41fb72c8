"""The evidence process: the cell once more, in a process of its own, watched and never timed.

Same environment, threads, shapes and strides as the timed processes. It writes what it knows as it
goes, so that a crash leaves the last stage behind, and leaves as soon as it knows enough.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any, NoReturn

from gemmgrid.measure.invocation.outcome import die_with_parent


def main(job_path: Path, out_path: Path) -> NoReturn:
    """Read the job, watch its cell, write the evidence; ends the process with exit code 0."""
    die_with_parent()
    report = _Report(out_path)
    try:
        report.stage("reading the job")
        job = json.loads(job_path.read_text(encoding="utf-8"))
        evidence = _evidence(job, report)
    except Exception as error:
        traceback.print_exc()
        text = str(error).strip().splitlines() or [""]
        reason = f"{type(error).__name__}: {text[0][:300]} (while {report.now})"
        evidence = {"status": "failed", "reason": reason}
    report.finish(evidence)


def _evidence(job: dict[str, Any], report: _Report) -> dict[str, Any]:
    from gemmgrid.measure.dispatch.library_logs import switch_on

    switch_on(job["adapter"], job["device"], report.folder)
    report.stage("importing the library")
    from gemmgrid.measure import adapters
    from gemmgrid.measure.dispatch.evidence import observe
    from gemmgrid.measure.dispatch.hidden_work import Asked
    from gemmgrid.measure.dispatch.watched_operands import make, memories
    from gemmgrid.measure.invocation import loop
    from gemmgrid.records.cell import Cell

    cell = Cell.from_json(job["cell"])
    adapter = adapters.load(job["adapter"])(job["device"], job["options"])
    unsupported = adapter.unsupported(cell)
    if unsupported:
        return {"status": "skipped", "reason": unsupported}
    report.stage("preparing the operands")
    adapter.set_threads(cell.threads)
    call = adapter.prepare(cell, make(cell, job["seed"]))
    ready = loop.compile_loop(call)
    lasting = {name: value for name, value in call.names.items() if name not in call.assigned}
    asked = Asked(
        dtype=cell.dtype,
        routine=cell.routine,
        batch=cell.options.batch,
        library=job["adapter"],
        output=None if cell.routine == "dot" else next((n for n in "Cy" if n in lasting), None),
    )
    report.stage("watching the product")

    def run() -> None:
        ready.batch(1)

    return observe(
        run,
        asked,
        operands=memories(lasting, call.addresses),
        device=job["device"],
        blas=job.get("blas"),
        folder=report.folder,
        threads=(adapter.set_threads, cell.threads),
        finish=report.finish,
    )


class _Report:
    """The output file: what was going on if the process dies, the evidence if it does not."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.folder = Path(tempfile.mkdtemp(prefix="logs-", dir=path.parent))
        self.now = "starting"

    def stage(self, name: str) -> None:
        self.now = name
        self._write({"status": "failed", "reason": f"the process ended while {name}"})

    def finish(self, evidence: dict[str, Any]) -> NoReturn:
        """Write the evidence and end the process, without the library's destructors."""
        self._write(evidence)
        shutil.rmtree(self.folder, ignore_errors=True)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)

    def _write(self, evidence: dict[str, Any]) -> None:
        beside = self._path.with_suffix(".part")
        beside.write_text(json.dumps(evidence, allow_nan=False), encoding="utf-8")
        beside.replace(self._path)
