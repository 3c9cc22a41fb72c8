"""The plan wing: from a config to cells. Imports no numeric library."""

from __future__ import annotations

from gemmgrid.plan.errors import ConfigError
from gemmgrid.plan.grid import PlannedCell, SkippedCell
from gemmgrid.plan.machines import Machine
from gemmgrid.plan.plan import Plan, load
from gemmgrid.plan.registry import Backend, load_registry

__all__ = [
    "Backend",
    "ConfigError",
    "Machine",
    "Plan",
    "PlannedCell",
    "SkippedCell",
    "load",
    "load_registry",
]
