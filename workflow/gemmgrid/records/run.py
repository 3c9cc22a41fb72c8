"""What a run is: its schema version, its words, and how older records become new ones.

`workflow/schemas/run.schema.yaml` describes a run in full. This module holds what both wings need
without a schema library: the vocabulary, migrations, and a light check that a document is a run.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from gemmgrid.records.cell import Cell

SCHEMA_VERSION = 1

STATUSES = {
    "ok": "measured, verified, published",
    "wrong": "the result was wrong",
    "implausible": "the rate or the clock cannot be true",
    "unsupported": "the library cannot do this",
    "excluded": "the config excludes it",
    "infeasible": "it does not fit this machine",
    "oom": "memory ran out",
    "timeout": "no sample within the time budget",
    "crashed": "the process died",
    "env-failed": "the environment is missing, broken or another one",
    "lost": "the job ended without a word",
}
"""Every status a run may end with; only `ok` publishes a rate."""

SETTLED = frozenset({"ok", "unsupported", "excluded", "infeasible"})
"""Statuses with which a cell is done: trying again on the same machine would say the same."""

FLAGS = {
    "few-invocations": "fewer than five processes: the interval is too narrow or missing",
    "one-round": "the processes followed each other: the interval holds the truth less often",
    "throttled": "clocks were held back while it ran",
    "noisy": "the interval is wide",
    "bimodal": "the samples fall into two groups",
    "drift": "the samples rose or fell while it ran",
    "no-blas": "no BLAS did the work",
    "slow-path": "far slower than the same library in float32",
    "reduced-precision": "computed in less precision than the dtype promises",
    "wrong-threads": "another number of threads worked than was asked for",
    "affinity-changed": "the library changed the process's CPU affinity",
    "quota": "a CPU quota is smaller than the threads asked for",
    "shared-node": "other jobs may have run on this node",
    "loaded": "other processes were busy",
    "steal": "the hypervisor took CPU time away",
    "battery": "it ran on battery",
    "budget-spent": "the time budget ended the sampling",
    "short-samples": "a sample was too short against the clock",
    "inconsistent-evidence": "a kernel ran without a routine that was seen",
    "blas-unverified": "the BLAS behind the call could not be identified",
    "stdout-noise": "the library printed to standard output",
    "other-machine": "the node is not what this machine's earlier runs were made on",
}
"""Doubts that leave the number standing."""

_REQUIRED: dict[str, type | tuple[type, ...]] = {
    "schema": int,
    "id": str,
    "started_at": str,
    "machine": str,
    "backend": str,
    "cell": dict,
    "status": str,
    "invocations": list,
}

_MIGRATIONS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""From version v to v + 1: `_MIGRATIONS[v](run)` returns the newer document."""


class NotARunError(ValueError):
    """The document is not a run that this version can read; the text says why."""


def now() -> str:
    """This moment in UTC, ISO 8601 with microseconds and a Z."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def new_id(started_at: str) -> str:
    """An identifier that sorts by time and never repeats: the start and six random hex digits."""
    return f"{started_at.replace('-', '').replace(':', '')}-{os.urandom(3).hex()}"


def migrate(document: Any) -> dict[str, Any]:
    """The run in the present schema; NotARunError where it is none, or newer than this version."""
    if not isinstance(document, dict):
        raise NotARunError(f"a run is a JSON object, not {type(document).__name__}")
    version = document.get("schema")
    if type(version) is not int or version < 1:
        raise NotARunError(f"schema version is {version!r}, not a whole number of at least 1")
    if version > SCHEMA_VERSION:
        raise NotARunError(
            f"schema version {version} is newer than this gemmgrid reads ({SCHEMA_VERSION}): update"
        )
    while version < SCHEMA_VERSION:
        document = _MIGRATIONS[version](document)
        version += 1
    problems = check(document)
    if problems:
        raise NotARunError("; ".join(problems))
    return document


def check(run: dict[str, Any]) -> list[str]:
    """What keeps this document from being a run; empty when nothing does."""
    problems = []
    for key, kind in _REQUIRED.items():
        if key not in run:
            problems.append(f"{key} is missing")
        elif not isinstance(run[key], kind):
            problems.append(f"{key} is {type(run[key]).__name__}")
    if not problems:
        if run["status"] not in STATUSES:
            problems.append(f"status {run['status']!r} is none of {', '.join(STATUSES)}")
        if not all(isinstance(invocation, dict) for invocation in run["invocations"]):
            problems.append("an invocation is not an object")
        try:
            Cell.from_json(run["cell"])
        except ValueError as error:
            problems.append(str(error))
    return problems
