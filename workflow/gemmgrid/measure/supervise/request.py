"""What the workflow asks of the measured side: one cell, the settings, and where it may run."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gemmgrid.records import locks
from gemmgrid.records.cell import Cell
from gemmgrid.records.names import name_problem

ENVS = Path(__file__).resolve().parents[4] / "envs"


@dataclass
class Environment:
    """The interpreter that a backend runs in, and how to know that it is the right one."""

    name: str
    deploy: str
    python: str
    prefix: str | None
    packages: list[dict[str, Any]] = field(default_factory=list)
    problem: str | None = None
    """Why it cannot be used, when that is known beforehand."""
    log_tail: str | None = None
    lock_hash: str | None = None


@dataclass
class Request:
    """One cell to measure; `spec` is what the plan wrote, `settings` the study's."""

    machine: str
    spec: dict[str, Any]
    cell: Cell
    settings: dict[str, Any]
    seed: int
    order: int | None
    tool: dict[str, Any]
    environment: Environment
    promise: dict[str, Any] | None = None
    """What config/machines.yaml says of the machine; None where it is no entry there."""
    trips: Path | None = None
    """File in which the trips between the machine's CPUs are kept; None: they are not."""

    @property
    def backend(self) -> str:
        return str(self.spec["backend"])


def read_request(machine: str, spec_text: str, study: Path, environment: Environment) -> Request:
    """The request of a job; `study` is the file the workflow wrote beside the plan.

    Raises ValueError for a name that could leave the results folder.
    """
    spec = json.loads(spec_text)
    for name in (machine, spec["backend"]):
        problem = name_problem(name)
        if problem:
            raise ValueError(problem)
    document = json.loads(study.read_text())
    cell = Cell.from_json(spec["cell"])
    return Request(
        machine=machine,
        spec=spec,
        cell=cell,
        settings=document["settings"],
        seed=document["seed"],
        order=document["orders"].get(f"{machine}/{spec['backend']}/{cell.name}"),
        tool=document["tool"],
        environment=environment,
        promise=document.get("promises", {}).get(machine),
    )


def venv(name: str, python: str, marker: Path) -> Environment:
    """An environment that uv built; the marker beside it says how that went."""
    try:
        made = json.loads(marker.read_text())
    except (OSError, ValueError) as error:
        return Environment(name, "venv", python, None, problem=f"{marker}: {error}")
    environment = Environment(
        name,
        "venv",
        python,
        made.get("prefix"),
        [{**package, "build": None} for package in made.get("packages", [])],
        lock_hash=made.get("lock_hash"),
    )
    if made.get("status") != "ok":
        environment.problem = f"the environment {name} could not be built: {made.get('reason')}"
        environment.log_tail = made.get("log_tail")
    return environment


def conda(name: str, meant: str) -> Environment:
    """The conda environment that Snakemake activated for this job.

    `meant` is the folder in which Snakemake keeps it. Snakemake goes on where an activation fails,
    and then another environment may be active: the one that Snakemake itself was started in.
    """
    prefix = os.environ.get("CONDA_PREFIX")
    problem = None
    if not prefix or Path(prefix).resolve() != Path(meant).resolve():
        active = f"{prefix} is active in its place" if prefix else "none is active"
        problem = f"the conda environment {meant} was not activated: {active}"
    elif not os.access(Path(prefix, "bin", "python"), os.X_OK):
        problem = f"the conda environment {meant} is broken: it has no bin/python that runs"
    if problem or not prefix:
        cure = "Remove that folder and start again: Snakemake makes it anew"
        return Environment(name, "conda", "python", None, problem=f"{problem}. {cure}")
    packages = []
    for path in sorted(Path(prefix, "conda-meta").glob("*.json")):
        try:
            meta = json.loads(path.read_text())
            packages.append({key: meta.get(key) for key in ("name", "version", "build")})
        except (OSError, ValueError):
            packages.append({"name": path.stem, "version": None, "build": None})
    try:
        lock = locks.lock_hash(*locks.files_of(name, "conda", ENVS))
    except OSError:
        lock = None
    python = str(Path(prefix, "bin", "python"))
    return Environment(name, "conda", python, prefix, packages, lock_hash=lock)


def at_hand(name: str, python: str, modules: Sequence[str] = ()) -> Environment:
    """An interpreter that the user names, or that environment modules bring.

    Nothing is promised about it, but that its modules are loaded: the shell goes on where one could
    not be, and then another python3 would be measured.
    """
    environment = Environment(name, "none", python, None)
    loaded = [one for one in os.environ.get("LOADEDMODULES", "").split(":") if one]
    missing = [
        wanted
        for wanted in modules
        if not any(one == wanted or one.startswith(f"{wanted}/") for one in loaded)
    ]
    if missing:
        environment.problem = (
            f"environment modules that could not be loaded: {', '.join(missing)} "
            f"(loaded: {', '.join(loaded) or 'none'}); `module avail` on this machine lists what "
            "there is"
        )
    return environment
