"""The SLURM job that this process belongs to."""

from __future__ import annotations

import os
from collections.abc import Mapping


def job_id(variables: Mapping[str, str] = os.environ) -> str | None:
    """The job's id; None outside SLURM."""
    return variables.get("SLURM_JOB_ID") or None
