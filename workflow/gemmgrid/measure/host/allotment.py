"""What this process was given of the machine: its CPUs, and the SLURM job that it belongs to."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from gemmgrid.measure.host.sysfiles import ROOT, online_cpus


def affinity() -> list[int] | None:
    """CPUs that this process may run on, None where the system does not tell (macOS)."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return None


def allowed_cpus(root: Path = ROOT) -> list[int]:
    """The same; of a recorded tree, and where the system does not tell, all that are on line."""
    own = affinity() if root == ROOT else None
    return online_cpus(root) if own is None else own


def job_id(variables: Mapping[str, str] = os.environ) -> str | None:
    """The SLURM job that this process belongs to; None outside SLURM."""
    return variables.get("SLURM_JOB_ID") or None
