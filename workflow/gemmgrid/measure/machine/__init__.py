"""What the machine is: the facts of `results/<machine>/machine.json`, and a machine's identity.

Nothing identifying is read into them: no hostname, no user, no serial number, no UUID. What cannot
be known is null, with a reason under the same dotted name in `unknown`.
"""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gemmgrid.measure.machine import cpu, gpus, system
from gemmgrid.measure.peaks import peaks
from gemmgrid.records.identity import identity
from gemmgrid.system.files import ROOT

SCHEMA = 1

__all__ = ["SCHEMA", "facts", "identity"]


def facts(root: Path = ROOT, architecture: str | None = None) -> dict[str, Any]:
    """All facts about this machine, ready for `machine.json`. Never raises.

    root           directory that stands for `/`
    architecture   as `platform.machine()` says it, for recorded trees of another one
    """
    unknown: dict[str, str] = {}
    architecture = architecture or platform.machine() or "unknown"
    found = gpus.facts(root, unknown)
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "recorded_at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "architecture": architecture,
        "cpu": cpu.facts(root, architecture, unknown),
        "numa": system.numa_nodes(root, unknown),
        "memory_bytes": system.physical_bytes(root, unknown),
        "gpus": found,
        "cards": gpus.cards(root, unknown, found),
        **system.facts(root, unknown),
        "unknown": unknown,
    }
    document["peaks"] = peaks.table(document)
    return document
