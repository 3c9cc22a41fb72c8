"""Whether a node is what the machine's entry in config/machines.yaml promises."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from typing import Any

from gemmgrid.system.cpus import affinity


def broken(
    promise: Mapping[str, Any] | None,
    facts: Mapping[str, Any],
    usable_cpus: int | None = None,
    architecture: str | None = None,
) -> list[str]:
    """What is not as promised, a phrase each; empty for a node that is, and without a promise.

    promise       {"cpus": 64 or None, "gpu": bool, "platform": "linux-x86_64"}
    facts         the machine's, as machine.json keeps them
    usable_cpus   CPUs that this process may run on; by default it is asked
    """
    if promise is None:
        return []
    found = []
    system = "macos" if sys.platform == "darwin" else sys.platform
    here = f"{system}-{architecture or platform.machine()}"
    if promise.get("platform") not in (None, here):
        found.append(f"{promise['platform']} is promised, this is {here}")
    usable = usable_cpus or len(affinity() or ()) or os.cpu_count() or 1
    if promise.get("cpus") and usable < promise["cpus"]:
        found.append(f"{_cpus(promise['cpus'])} promised, {usable} may be used")
    if promise.get("gpu") and not facts.get("gpus"):
        found.append("a GPU is promised, and none is to be seen")
    return found


def _cpus(count: int) -> str:
    return "1 CPU is" if count == 1 else f"{count} CPUs are"
