"""Measuring cells with gemmgrid's own supervisor, inside this process."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from gemmgrid.measure.supervise.lock import measuring
from gemmgrid.measure.supervise.request import Environment, Request
from gemmgrid.measure.supervise.rounds import gather
from gemmgrid.measure.supervise.supervisor import measure_cell, measure_more
from gemmgrid.plan import Backend, load, load_registry
from gemmgrid.records.cell import Cell
from support import ROOT, tool

SEED = 1


@cache
def registry() -> dict[str, Backend]:
    """The project's backends."""
    return load_registry(ROOT)


@cache
def _defaults() -> dict[str, Any]:
    config = yaml.safe_load((ROOT / "config" / "config.yaml").read_text())
    return load(config, ROOT, "venv").settings


def settings(**changes: Any) -> dict[str, Any]:
    """The settings of the default study, with these changes."""
    unknown = set(changes) - set(_defaults())
    if unknown:
        raise ValueError(f"no such settings: {', '.join(sorted(unknown))}")
    return {**_defaults(), **changes}


def spec(backend_name: str, cell: Cell) -> dict[str, Any]:
    """What the plan writes for a cell of that backend."""
    backend = registry()[backend_name]
    return {
        "cell": cell.to_json(),
        "backend": backend.name,
        "adapter": backend.adapter,
        "device": backend.device,
        "blas": backend.blas,
        "options": dict(backend.options),
        "variables": dict(backend.variables),
    }


def measure(
    backend: str,
    cell: Cell,
    environment: Environment,
    chosen: dict[str, Any],
    number: int | None = None,
    part: dict[str, Any] | None = None,
    trips: Path | None = None,
) -> dict[str, Any]:
    """One run of a cell, or its part of one round. Hold `alone()` meanwhile.

    part    of that round: what it lacks for the best state is measured, where there is time
    trips   where the trips between CPUs are kept, by which later processes know the states
    """
    request = Request(
        "benchmark",
        spec(backend, cell),
        cell,
        chosen,
        SEED,
        None,
        tool.describe(),
        environment,
        trips=trips,
    )
    if part and number:
        more = measure_more(request, _nothing, number, part)
        return gather([part, more]) if more else part
    return measure_cell(request, _nothing, number)


def alone() -> AbstractContextManager[None]:
    """The machine's measuring lock: no other measurement of gemmgrid runs while it is held."""
    return measuring(_nothing)


def _nothing() -> None:
    """The supervisor asks now and then whether to go on; it always is to."""
