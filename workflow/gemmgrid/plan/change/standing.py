"""Where each cell stands: its latest run, and what has changed on the machine since.

Compares each cell's latest run with what `measure.supervise.current_context` found on the machine.
Nothing is measured.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from gemmgrid.plan.config.registry import Backend
from gemmgrid.plan.environments import VENVS, interpreter
from gemmgrid.records import context
from gemmgrid.records.cell import Cell
from gemmgrid.records.foreign_runs import broken, latest_own
from gemmgrid.records.run import SETTLED
from gemmgrid.records.text import spell_seconds

MISSING = "missing"
OTHER_HARDWARE = "other hardware than machine.json describes"
NO_RUN_S = 5.0
"""Seconds that a cell without any run is taken to need."""

Change = tuple[str, Any, Any]
"""Key, old value, new value: as records.context.changes gives them."""


@dataclass(frozen=True)
class Entry:
    """A cell of the plan: what is needed of it here."""

    machine: str
    backend: str
    cell: Cell
    path: str


@dataclass(frozen=True)
class Standing:
    """Where one cell stands: its latest run, and what has changed since.

    Only a run that the machine itself made counts. seconds: what it took, so about what another
    one will take; unknown: what could not be compared because it is not known now; elsewhere: why
    a newer run in the cell's file, made on another machine, does not count.
    """

    entry: Entry
    status: str = MISSING
    measured_at: str | None = None
    seconds: float = NO_RUN_S
    changes: tuple[Change, ...] = ()
    unknown: tuple[str, ...] = ()
    elsewhere: str | None = None

    @property
    def stale(self) -> bool:
        return bool(self.changes)

    @property
    def missing(self) -> bool:
        return self.status == MISSING

    @property
    def failed(self) -> bool:
        """Another try could end otherwise, on the same machine as it is."""
        return not self.missing and self.status not in SETTLED

    def age_s(self, now: datetime) -> float:
        """Seconds since the latest run; infinite without one."""
        if self.measured_at is None:
            return float("inf")
        return (now - datetime.fromisoformat(self.measured_at)).total_seconds()


@dataclass
class Latest:
    """The latest runs of cells that count for their machines, read once.

    elsewhere: by path, why a newer run does not count, where there is one.
    """

    runs: dict[str, dict[str, Any] | None] = field(default_factory=dict)
    elsewhere: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, path: str) -> dict[str, Any] | None:
        if path not in self.runs:
            run, newer = latest_own(Path(path))
            if newer:
                self.elsewhere[path] = "; ".join(broken(newer)) or OTHER_HARDWARE
            # Samples are most of a run, and nothing here looks at them.
            self.runs[path] = _without_samples(run) if run else None
        return self.runs[path]


def request(
    machine: str,
    entries: Iterable[Entry],
    backends: Mapping[str, Backend],
    deploy: str,
    root: Path,
    latest: Latest,
    conda_prefix: Callable[[str], str | None] = lambda environment: None,
) -> dict[str, Any]:
    """What `gemmgrid.measure.supervise.current_context` is asked about a machine.

    conda_prefix: where Snakemake keeps, or would make, the conda environment of that name.
    """
    asked: dict[str, dict[str, Any]] = {}
    for entry in entries:
        if entry.machine != machine:
            continue
        backend = backends[entry.backend]
        if entry.backend not in asked:
            asked[entry.backend] = _asked(backend, deploy, root, conda_prefix)
        wanted = asked[entry.backend]
        run = latest[entry.path]
        own = _part(run, "backend")
        _add(wanted["threads"], entry.cell.threads)
        for name in own.get("packages") or {}:
            _add(wanted["packages"], name)
        if file := (own.get("library") or {}).get("file"):
            _add(wanted["libraries"], file)
    return {"machine": machine, "backends": asked}


def standings(
    entries: Iterable[Entry], now: Mapping[str, Mapping[str, Any]], latest: Latest
) -> list[Standing]:
    """Where each cell stands; `now`: by machine, what `current_context` answered."""
    return [
        replace(
            _standing(entry, now[entry.machine], latest[entry.path]),
            elsewhere=latest.elsewhere.get(entry.path),
        )
        for entry in entries
    ]


def today(
    entry: Entry, now: Mapping[str, Any], run: Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The context that a run of this cell would have now, and what of it is not known.

    What is not known is left out, so that it is not compared.
    """
    found = now["backends"][entry.backend]
    backend = dict(found["context"])
    backend["protocol"] = entry.cell.protocol
    backend["variables"] = found["by_threads"].get(str(entry.cell.threads))
    if backend["variables"] is None:
        del backend["variables"]
    unknown = () if found["built"] else (found["reason"],)
    library = _part(run, "backend").get("library")
    file = (library or {}).get("file")
    if library and file in found["files"]:
        content = found["files"][file]
        if library.get("fingerprint") is None or content == library["fingerprint"]:
            backend["library"] = library
        else:
            backend["library"] = {**library, "fingerprint": content}
            if content is None:
                backend["library"] = {"file": None} | dict.fromkeys(library.keys() - {"file"})
    device = now["devices"].get(run.get("device"), {})
    return {"host": now["host"], "device": device, "backend": backend}, unknown


def _standing(entry: Entry, now: Mapping[str, Any], run: dict[str, Any] | None) -> Standing:
    if run is None:
        return Standing(entry)
    new, unknown = today(entry, now, run)
    old = context.of_run(run)
    old["backend"].setdefault("protocol", run["cell"].get("protocol"))
    found = _told(context.changes(old, new))
    changes = tuple((key, *pair) for key, pair in found.items())
    return Standing(entry, run["status"], run.get("ended_at"), _seconds(run), changes, unknown)


def _told(found: dict[str, tuple[Any, Any]]) -> dict[str, tuple[Any, Any]]:
    """Without what follows from another change: a file that is gone says nothing of itself, and
    conda's packages are not those of a venv."""
    file = "backend.library.file"
    follows: tuple[str, ...] = ()
    if "backend.deploy" in found:
        follows = ("backend.packages.", "backend.library.", "backend.lock", "backend.python")
    elif file in found and found[file][1] is None:
        follows = ("backend.library.",)
    return {
        key: pair
        for key, pair in found.items()
        if (key == file and "backend.deploy" not in found) or not key.startswith(follows)
    }


def _seconds(run: Mapping[str, Any]) -> float:
    """What the run took; with rounds, whose span is the whole grid's, what its processes took."""
    settings = run.get("settings") or {}
    if settings.get("rounds", 1) > 1 and run["invocations"]:
        return sum(one.get("span_s", 0.0) + 0.3 for one in run["invocations"])
    try:
        ended, started = (datetime.fromisoformat(run[key]) for key in ("ended_at", "started_at"))
    except (KeyError, TypeError, ValueError):
        return NO_RUN_S
    return (ended - started).total_seconds()


def _without_samples(run: dict[str, Any]) -> dict[str, Any]:
    invocations = []
    for one in run["invocations"]:
        samples = one.get("samples") or {}
        sampled = sum(samples.get("elapsed_ns") or []) / 1e9
        others = [one.get(key) or 0.0 for key in ("import_s", "setup_s", "first_call_s")]
        warmup = (one.get("warmup") or {}).get("seconds") or 0.0
        invocations.append({"span_s": sampled + sum(others) + warmup})
    return {**run, "invocations": invocations, "evidence": None}


def _asked(
    backend: Backend, deploy: str, root: Path, conda_prefix: Callable[[str], str | None]
) -> dict[str, Any]:
    own = "none" if backend.of_site else deploy
    prefix = None
    if own == "venv":
        prefix = str(root.resolve() / VENVS / backend.environment)
    elif own == "conda":
        prefix = conda_prefix(backend.environment)
    return {
        "adapter": backend.adapter,
        "device": backend.device,
        "options": dict(backend.options),
        "variables": dict(backend.variables),
        "deploy": own,
        "environment": backend.environment,
        # Environment modules are not loaded here, so their interpreter cannot be asked.
        "python": None if backend.modules else interpreter(backend, deploy, root),
        "prefix": prefix,
        "threads": [],
        "packages": [],
        "libraries": [],
    }


def _part(run: Mapping[str, Any] | None, part: str) -> Mapping[str, Any]:
    return ((run or {}).get("context") or {}).get(part) or {}


def _add(to: list[Any], value: Any) -> None:
    if value not in to:
        to.append(value)


def read_plan(path: Path) -> list[Entry]:
    """The planned cells of a plan.jsonl."""
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines()[1:])
    return [
        Entry(line["machine"], line["backend"], Cell.from_json(line["cell"]), line["path"])
        for line in lines
        if line["status"] == "planned"
    ]


def read_answer(path: Path) -> dict[str, Any]:
    """What `gemmgrid.measure.supervise.current_context` wrote."""
    return dict(json.loads(path.read_text(encoding="utf-8")))


def told_time(members: Iterable[Standing]) -> str:
    """About how long these cells take to measure again."""
    return f"about {spell_seconds(max(1, sum(one.seconds for one in members)))}"
