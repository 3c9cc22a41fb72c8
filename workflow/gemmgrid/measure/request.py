"""What the workflow asks of the measured side: one cell, the settings, and where it may run."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gemmgrid.records.cell import Cell
from gemmgrid.records.names import name_problem


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


def conda(name: str) -> Environment:
    """The conda environment that Snakemake activated for this job."""
    prefix = os.environ.get("CONDA_PREFIX")
    if not prefix:
        problem = "no conda environment is active: its activation failed, or conda is missing"
        return Environment(name, "conda", "python", None, problem=problem)
    packages = []
    for path in sorted(Path(prefix, "conda-meta").glob("*.json")):
        try:
            meta = json.loads(path.read_text())
            packages.append({key: meta.get(key) for key in ("name", "version", "build")})
        except (OSError, ValueError):
            packages.append({"name": path.stem, "version": None, "build": None})
    return Environment(name, "conda", str(Path(prefix, "bin", "python")), prefix, packages)


def at_hand(name: str, python: str) -> Environment:
    """An interpreter that the user names: nothing is promised about it."""
    return Environment(name, "none", python, None)
