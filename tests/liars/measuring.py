"""Cells measured under the interpreter of the tests, which has NumPy."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from gemmgrid.measure.supervise.request import Environment, Request
from gemmgrid.measure.supervise.supervisor import measure_cell
from gemmgrid.records.cell import Cell

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = {
    "invocations": 1,
    "rounds": 1,
    "warmup_s": 0.05,
    "sample_s": 0.1,
    "min_samples": 10,
    "max_samples": 2000,
    "interval": 0.01,
    "batch_s": 0.001,
    "budget_s": 20,
    "memory_fraction": 0.8,
    "evidence": False,
}


def measured(adapter: str, name: str, look: Callable[[], None] = lambda: None, **settings) -> dict:
    """A run of the cell; `look` is called now and then while a process runs."""
    cell = Cell.parse(name)
    spec = {
        "cell": cell.to_json(),
        "backend": adapter.rpartition(".")[2].replace("_", "-"),
        "adapter": adapter,
        "device": "cpu",
        "blas": None,
        "options": {},
        "variables": {"PYTHONPATH": str(ROOT)},
    }
    environment = Environment("liars", "none", sys.executable, None)
    request = Request("here", spec, cell, SETTINGS | settings, 1, None, {}, environment)
    return measure_cell(request, look)
