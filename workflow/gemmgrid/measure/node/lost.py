"""A run for a cell that was sent to a node and never came back: `lost`, with SLURM's own reason."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gemmgrid.measure.supervise import request as requests
from gemmgrid.measure.supervise import software
from gemmgrid.measure.supervise.supervisor import blank
from gemmgrid.records import history
from gemmgrid.records.context import digest, known
from gemmgrid.records.run import now


def record(entry: Mapping[str, Any], study: Path) -> dict[str, Any]:
    """Append the run of one lost cell; returns it.

    entry   {"machine", "spec" (the plan's text), "deploy", "environment", "prefix", "out" (the
            cell's file), "reason", "slurm": {"job_id", "node", "partition"} or None}
    study   the file the workflow wrote beside the plan
    """
    environment = requests.Environment(
        entry["environment"], entry["deploy"], "python", entry.get("prefix")
    )
    request = requests.read_request(entry["machine"], entry["spec"], study, environment)
    variables = dict(request.spec["variables"])
    backend = software.backend_context(
        request.spec, variables, environment.deploy, environment.prefix, None
    )
    context = {
        "host": {},
        "device": None,
        "backend": backend,
        "host_hash": digest({}),
        "device_hash": None,
        "backend_hash": digest(known(backend)),
    }
    run = blank(request, context, variables, {})
    run["ended_at"] = now()
    run["reason"] = entry["reason"]
    run["promise"] = {**request.promise, "broken": []} if request.promise else None
    run["slurm"] = _place(entry.get("slurm"))
    run["unknown"] = {"host.id": "the job did not live to tell"}
    history.append(Path(entry["out"]), run)
    return run


def _place(told: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What is known of the SLURM job from outside; every key of a run's `slurm` is there."""
    if not told:
        return None
    keys = [
        *("job_id", "node", "partition", "features", "cluster", "account", "qos", "exclusive"),
        *("cpus_on_node", "cpus_allocated", "memory_mb", "gres", "restarts"),
        *("affinity", "memory_limit_bytes"),
    ]
    found = {key: told.get(key) for key in keys}
    reason = "the job did not live to tell"
    return {**found, "unknown": {key: reason for key, value in found.items() if value is None}}
