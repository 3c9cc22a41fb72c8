"""Words of the commands that rules run, and what jobs read of the plan on disk."""

from __future__ import annotations

import json
import os
from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import Any

from gemmgrid.plan.config.registry import Backend
from gemmgrid.plan.grid.expand import PlannedCell
from gemmgrid.plan.jobs.blocks import Block
from gemmgrid.records.cell import Cell

REPORT_NEEDS = ("pandas", "pyarrow", "seaborn", "jinja2", "scipy")
"""Packages without which tables and page cannot be made."""


def ours(package: str, python: str) -> list[str]:
    """The start of a command of ours, under that Python: what follows is for `gemmgrid`."""
    return ["env", f"PYTHONPATH={package}", python, "-s", "-m", "gemmgrid"]


def sources(package: str, *patterns: str) -> list[str]:
    """The files of our package that something is made by: a newer one makes it anew.

    patterns   folders or files under the package
    """
    root = Path(package, "gemmgrid")
    found: set[str] = set()
    for pattern in patterns:
        for place in root.glob(pattern):
            files = place.rglob("*") if place.is_dir() else [place]
            found |= {str(f) for f in files if f.is_file() and f.suffix != ".pyc"}
    return sorted(found)


def files_named(
    arguments: Iterable[str], histories: Container[str], others: Container[str]
) -> list[str]:
    """The arguments of a command line that name a cell's file or another one that is made."""
    return [
        one
        for one in dict.fromkeys(arguments)
        if (path := os.path.normpath(one)) in histories or path in others
    ]


def explain(backend: Backend, python: str, asked: Mapping[str, Any]) -> list[str]:
    """Arguments of `gemmgrid explain`; `asked`: expr, dtype, shape, threads of --config."""
    return [
        *("--python", python, "--device", backend.device),
        *("--threads", str(asked.get("threads", 1))),
        *("--variables", json.dumps(dict(backend.variables))),
        *("--", "--expr", str(asked.get("expr", "A @ B")), "--backend", backend.name),
        *("--adapter", backend.adapter, "--options", json.dumps(dict(backend.options))),
        *(("--blas", backend.blas) if backend.blas else ()),
        *("--dtype", str(asked.get("dtype", "float32")), "--shape", str(asked.get("shape", 512))),
    ]


def digest_of(study: Path) -> str | None:
    """The digest of the plan that lies on disk; None without one."""
    try:
        return str(json.loads(study.read_text(encoding="utf-8"))["digest"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def read_block(path: Path, name: str) -> Block:
    """The block of that name from blocks.jsonl, as far as a job's resources need it.

    OSError and LookupError where it is not there.
    """
    with path.open(encoding="utf-8") as lines:
        line = next((line for line in lines if line.startswith(f'{{"block":"{name}",')), None)
    if line is None:
        raise LookupError(f"{path} has no block {name}")
    told = json.loads(line)
    cells = tuple(
        PlannedCell(
            told["machine"],
            one["spec"]["backend"],
            Cell.from_json(one["spec"]["cell"]),
            json.dumps(one["spec"], sort_keys=True, separators=(",", ":")),
            one["order"],
        )
        for one in told["cells"]
    )
    occasions = tuple(one["occasion"] for one in told["cells"])
    latest = tuple(one["latest"] for one in told["cells"])
    return Block(told["machine"], name, cells, occasions, latest, tuple(told["rounds"]))
