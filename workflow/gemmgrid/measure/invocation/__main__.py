"""One fresh process of a run: import, prepare, verify, warm up, sample, verify again, say so.

Runs inside the backend's environment: the standard library, NumPy and the one backend. What it
found goes into a file as one JSON document; the stage it is in goes into another, so that the
supervisor knows where a process died. Started as
`python -s -m gemmgrid.measure.invocation JOB RESULT`.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

_STARTED = time.perf_counter()

from gemmgrid.measure.invocation.outcome import Budget, Ended, die_with_parent  # noqa: E402
from gemmgrid.records.run import now  # noqa: E402


def main(arguments: list[str]) -> int:
    job_path, result_path = map(Path, arguments)
    die_with_parent()
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]  # for an ASCII locale
    job = json.loads(job_path.read_text(encoding="utf-8"))
    document: dict[str, Any] = {
        "index": job["index"],
        "round": job["round"],
        "started_at": now(),
        "status": "ok",
        "reason": None,
        "flags": [],
        "stage": "start",
        "unknown": {},
    }

    def stage(name: str) -> None:
        document["stage"] = name
        result_path.with_suffix(".stage").write_text(name, encoding="utf-8")
        if "samples" in document:  # they stay, should the process not live to verify them
            save()

    def save() -> None:
        result_path.write_text(json.dumps(document, allow_nan=False), encoding="utf-8")

    code = 0
    try:
        _check_prefix(job)
        stage("import")
        from gemmgrid.measure.invocation.steps import measure

        measure(job, document, stage, Budget(_STARTED, job["soft_s"], job["left_s"]))
        stage("done")
    except Ended as end:
        document["status"], document["reason"] = end.status, end.reason
    except Exception as error:
        traceback.print_exc()
        document["status"], document["reason"] = _classify(error, document["stage"])
        code = int(document["status"] != "env-failed")
    save()
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit: some backends crash or hang in their destructors, after all is said.
    os._exit(code)


def _check_prefix(job: dict[str, Any]) -> None:
    """Refuse to measure in another environment than the one that was meant."""
    expected = job.get("expected_prefix")
    if expected and Path(expected).resolve() != Path(sys.prefix).resolve():
        raise Ended(
            "env-failed",
            f"this Python belongs to {sys.prefix}, not to the environment {expected}",
        )


def _classify(error: Exception, stage: str) -> tuple[str, str]:
    """Status and reason. The environment is blamed where the library cannot be imported, or its
    adapter refuses an option or a device."""
    if stage == "import" and isinstance(error, ImportError | OSError | ValueError):
        return "env-failed", f"{type(error).__name__}: {error}"
    text = f"{type(error).__name__}: {error}".strip().splitlines()
    reason = f"{text[0][:300]} (while: {stage})"
    lowered = str(error).lower()
    memory = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    if memory or "out of memory" in lowered or "resource_exhausted" in lowered:
        return "oom", reason
    return "crashed", reason


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
