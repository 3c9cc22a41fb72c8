"""The plan wing: from a config to cells. Imports no numeric library."""

from __future__ import annotations

from gemmgrid.plan.config.errors import ConfigError
from gemmgrid.plan.config.machines import Machine
from gemmgrid.plan.config.registry import Backend, load_registry
from gemmgrid.plan.grid.expand import PlannedCell, SkippedCell
from gemmgrid.plan.plan import Plan, load

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
