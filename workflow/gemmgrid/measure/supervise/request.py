"""What the workflow asks of the measured side: one cell, the settings, and where it may run."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
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
    activation: dict[str, str] = field(default_factory=dict)
    """Variables that activating it sets."""


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


def make_request(
    machine: str,
    entry: Mapping[str, Any],
    study: Mapping[str, Any],
    environment: Environment,
) -> Request:
    """The request of one cell of a block.

    entry   the cell's of results/.plan/blocks.jsonl: spec, order
    study   what results/.plan/study.json holds: settings, seed, tool, promises

    Raises ValueError for a name that could leave the results folder.
    """
    spec = dict(entry["spec"])
    for name in (machine, spec["backend"]):
        problem = name_problem(name)
        if problem:
            raise ValueError(problem)
    return Request(
        machine=machine,
        spec=spec,
        cell=Cell.from_json(spec["cell"]),
        settings=study["settings"],
        seed=study["seed"],
        order=entry.get("order"),
        tool=study["tool"],
        environment=environment,
        promise=study.get("promises", {}).get(machine),
    )


def environment_of(place: Mapping[str, Any], markers: Path) -> Environment:
    """The environment of a backend; `place` is what study.json says of it, `markers` the folder of
    the files that say how the environments were made."""
    if place["deploy"] == "none":
        return at_hand(place["environment"], place["python"], place["modules"])
    return made(place["environment"], place["deploy"], markers / f"{place['environment']}.json")


def made(name: str, deploy: str, marker: Path) -> Environment:
    """An environment that the workflow made; its marker says how that went."""
    try:
        told = json.loads(marker.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        return Environment(name, deploy, "python", None, problem=f"{marker}: {error}")
    environment = Environment(
        name,
        deploy,
        f"{told['prefix']}/bin/python",
        told["prefix"],
        [{"build": None, **package} for package in told["packages"]],
        lock_hash=told["lock_hash"],
    )
    if deploy == "conda":
        path = os.pathsep.join([f"{told['prefix']}/bin", os.environ.get("PATH", os.defpath)])
        environment.activation = {**told["activation"], "PATH": path}
    if told["status"] != "ok":
        environment.problem, environment.log_tail = told["reason"], told["log_tail"]
        if deploy == "venv":
            environment.problem = f"the environment {name} could not be built: {told['reason']}"
        else:
            environment.prefix = None
    return environment


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
