"""What a run is: its schema version, its words, and how older records become new ones.

`records/run_types.py` names a run's keys. This module holds the vocabulary, the migrations, and the
door through which every document passes that is read as a run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from gemmgrid.records.cell import Cell
from gemmgrid.records.run_types import Run
from gemmgrid.records.shape import Sieve, keys_of

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
    "few-invocations": "fewer than five processes count: the interval is wide or missing",
    "one-round": "the processes followed each other: the interval holds the truth less often",
    "throttled": "clocks were held back while it ran",
    "noisy": "the interval is wide",
    "bimodal": "the samples fall into two groups",
    "drift": "the samples rose or fell while it ran",
    "no-blas": "no BLAS did the work",
    "slow-path": "far slower than the same library in float32",
    "reduced-precision": "computed in less precision than the dtype promises",
    "wrong-threads": "another number of threads worked than was asked for",
    "oversubscribed": "more threads were asked for than CPUs could be used",
    "affinity-changed": "the library changed the process's CPU affinity",
    "quota": "a CPU quota is smaller than the threads asked for",
    "shared-node": "other jobs may have run on this node",
    "loaded": "other processes were busy",
    "steal": "the hypervisor took CPU time away",
    "battery": "it ran on battery",
    "budget-spent": "the time budget ended the sampling",
    "short-samples": "a sample was too short against the clock",
    "inconsistent-evidence": "a kernel ran without a routine that was seen",
    "stdout-noise": "the library printed to standard output",
    "warned": "the library wrote warnings to standard error",
    "other-state": "no process ran in the best state that this machine's CPUs have shown",
    "other-machine": "the node is not what this machine's earlier runs were made on",
}
"""Doubts that leave the number standing."""

UNRANKED = frozenset({"wrong-threads", "oversubscribed"})
"""Flags with which a run enters no ranking: its threads are not what the cell's name says."""

ESSENTIAL = ("schema", "id", "started_at", "machine", "backend", "cell", "status", "invocations")
"""Keys without which, or with another type, a document is no run."""

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
    return admit(document)[0]


def admit(document: Any) -> tuple[dict[str, Any], list[str]]:
    """The run in the present schema, and a sentence for each value in it that is of a wrong type.

    Such a value is None in the run: whoever reads it finds what the types promise, or nothing.
    NotARunError where what a run must have is missing or wrong, or where it is of a newer version.
    """
    given = _up_to_date(document)
    sieve = Sieve()
    run = sieve.sift(given, Run)
    lacking = {key for key in ESSENTIAL if run.get(key) is None}
    if not lacking and len(run["invocations"]) < len(given["invocations"]):
        lacking = {"invocations"}
    if lacking:
        absent = [f"{key} is missing" for key in ESSENTIAL if given.get(key) is None]
        wrong = [text for text in sieve.problems if re.split(r"[. ]", text)[0] in lacking]
        raise NotARunError("; ".join([*absent, *wrong]))
    try:
        Cell.from_json(given["cell"])
    except ValueError as error:
        raise NotARunError(str(error)) from error
    return run, sieve.problems


def problems_of(document: Any) -> list[str]:
    """What keeps a document from being a run as gemmgrid writes it, a sentence each."""
    try:
        given = _up_to_date(document)
    except NotARunError as error:
        return [str(error)]
    sieve = Sieve(strict=True)
    sieve.sift(given, Run)
    strangers = sorted(given.keys() - keys_of(Run).keys())
    return [*sieve.problems, *(f"{key} is no key of a run" for key in strangers)]


def _up_to_date(document: Any) -> dict[str, Any]:
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
    return dict(document)
