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


def record(
    machine: str, entry: Mapping[str, Any], study: Mapping[str, Any], ending: Mapping[str, Any]
) -> dict[str, Any]:
    """Append the run of one lost cell; returns it.

    entry    the cell's of blocks.jsonl
    study    what study.json holds
    ending   {"reason", "job_id", "node", "partition"}, all but the reason None or left out where
             no job was made
    """
    place = study["backends"][entry["spec"]["backend"]]
    environment = requests.Environment(place["environment"], place["deploy"], "python", None)
    request = requests.make_request(machine, entry, study, environment)
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
    run["reason"] = ending["reason"]
    run["promise"] = {**request.promise, "broken": []} if request.promise else None
    run["slurm"] = _place(ending)
    run["unknown"] = {"host.id": "the job did not live to tell"}
    history.append(Path(entry["path"]), run)
    return run


def _place(told: Mapping[str, Any]) -> dict[str, Any] | None:
    """What is known of the SLURM job from outside; every key of a run's `slurm` is there."""
    if not told.get("job_id"):
        return None
    keys = [
        *("job_id", "node", "partition", "features", "cluster", "account", "qos", "exclusive"),
        *("cpus_on_node", "cpus_allocated", "memory_mb", "gres", "restarts"),
        *("affinity", "memory_limit_bytes"),
    ]
    found = {key: told.get(key) for key in keys}
    reason = "the job did not live to tell"
    return {**found, "unknown": {key: reason for key, value in found.items() if value is None}}
