"""What a SLURM job knows of itself: its id, the node and its features, and what share is its own.

The variables of the job tell some of it, `scontrol` the rest. Nothing here ever raises: what cannot
be known is None, with the reason in `unknown`.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Mapping
from typing import Any

from gemmgrid.measure.host.job import job_id
from gemmgrid.system import cgroup
from gemmgrid.system.cpus import affinity

PATIENCE_S = 10.0
"""Seconds that the controller may take to answer; a job asks it twice on each of its nodes."""

Ask = Callable[[str, str], tuple[dict[str, str], str | None]]
"""What kind of thing, its name → its fields, and why there are none."""

_TOLD: dict[tuple[str, str], dict[str, str]] = {}
"""What the controller has told this process, which measures all the cells of its allocation."""


def ask_controller(kind: str, name: str) -> tuple[dict[str, str], str | None]:
    """`scontrol show kind name` as fields; empty, with the reason, where it does not answer."""
    try:
        done = subprocess.run(
            ["scontrol", "-o", "show", kind, name],
            stdin=subprocess.DEVNULL,  # the job's own may be the script that is being run
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=PATIENCE_S,
            check=False,
        )
    except FileNotFoundError:
        return {}, "there is no scontrol on this node"
    except subprocess.TimeoutExpired:
        return {}, f"scontrol did not answer within {PATIENCE_S:g} s"
    except (OSError, ValueError) as error:
        return {}, f"scontrol cannot be run: {error}"
    if done.returncode:
        return {}, f"scontrol: {(done.stderr.strip() or 'no message').splitlines()[-1]}"
    return fields(done.stdout), None


def ask_once(kind: str, name: str) -> tuple[dict[str, str], str | None]:
    """`ask_controller` with a memory; a failed answer is not kept, so the next cell asks again."""
    if (kind, name) in _TOLD:
        return _TOLD[kind, name], None
    answer, problem = ask_controller(kind, name)
    if answer and not problem:
        _TOLD[kind, name] = answer
    return answer, problem


def fields(text: str) -> dict[str, str]:
    """`Key=value Key=value …` of one line; a value may hold spaces, as `OS=Linux 6.1 #1` does.

    The first occurrence of a key counts: what people write (Comment, Reason) stands at the end.
    """
    found: dict[str, str] = {}
    pairs = re.findall(r"(?:^|\s)([A-Z][\w/:.-]*)=(.*?)(?=\s[A-Z][\w/:.-]*=|\s*$)", text.strip())
    for key, value in pairs:
        found.setdefault(key, value.strip())
    return {key: value for key, value in found.items() if value not in ("", "(null)", "N/A", "n/a")}


def describe(
    variables: Mapping[str, str] = os.environ, ask: Ask = ask_once
) -> dict[str, Any] | None:
    """The `slurm` part of a run; None outside SLURM. Keys: see docs/records.md.

    ask   who is asked about the job and the node; by default the controller, once a process
    """
    job = job_id(variables)
    if job is None:
        return None
    own, no_job = ask("job", job)
    name = variables.get("SLURMD_NODENAME")
    node, no_node = ask("node", name) if name else ({}, "SLURM does not name the node")
    # A job over several nodes: what it has on this one is not told.
    single = _number(own.get("NumNodes")) in (None, 1)
    allocated = _number(own.get("NumCPUs")) if single else None
    total = _number(node.get("CPUTot"))
    features = node.get("ActiveFeatures")
    found: dict[str, Any] = {
        "job_id": job,
        "node": name,
        "partition": variables.get("SLURM_JOB_PARTITION") or own.get("Partition"),
        "features": features.split(",") if features else ([] if node else None),
        "cluster": variables.get("SLURM_CLUSTER_NAME"),
        "account": own.get("Account"),
        "qos": own.get("QOS"),
        # CPUEfctv: without the cores that the site keeps for the system.
        "exclusive": _exclusive(
            own.get("OverSubscribe"), allocated, _number(node.get("CPUEfctv")) or total
        ),
        "cpus_on_node": total,
        "cpus_allocated": allocated,
        "memory_mb": _megabytes(own.get("AllocTRES") or own.get("TRES") or "") if single else None,
        "gres": _gres(own),
        "restarts": _number(own.get("Restarts")),
        "affinity": affinity(),
        "memory_limit_bytes": cgroup.read().memory_bytes,
    }
    several = None if single else "the job has several nodes"
    reasons = {
        **dict.fromkeys(("features", "cpus_on_node"), no_node),
        **dict.fromkeys(("cpus_allocated", "memory_mb"), several),
        "exclusive": no_job or several or no_node,
        "affinity": "the system does not tell it",
        "memory_limit_bytes": "no control group limits it",
    }
    told = no_job or "SLURM does not tell it"
    unknown = {
        key: reasons.get(key) or told
        for key, value in found.items()
        if value is None and (key != "gres" or no_job)
    }
    return {**found, "unknown": unknown}


def _exclusive(oversubscribe: str | None, allocated: int | None, usable: int | None) -> bool | None:
    """Whether no other job can be on the node; None where that cannot be told.

    OverSubscribe of a job, from squeue's manual: NO it has the node alone, YES its CPUs may be
    given to others too, OK its CPUs are its own; USER, MCS (and TOPO of later versions) the node's
    other CPUs may only go to jobs of the same user, or label.
    """
    if oversubscribe in ("NO", "YES"):
        return oversubscribe == "NO"
    if oversubscribe is None or allocated is None or usable is None:
        return None
    if allocated < usable:
        return False
    return True if oversubscribe == "OK" else None


def _gres(own: Mapping[str, str]) -> str | None:
    """`gres:gpu:h200:1` (22.05), `gres/gpu:h200:1` (later) → `gpu:h200:1`."""
    for key in ("TresPerNode", "TresPerJob", "TresPerSocket", "TresPerTask"):
        found = re.findall(r"(?:^|,)gres[:/]([^,]+)", own.get(key, ""))
        if found:
            return ",".join(found)
    return None


def _number(text: str | None) -> int | None:
    match = re.match(r"\d+", text or "")
    return int(match[0]) if match else None


def _megabytes(resources: str) -> int | None:
    """`cpu=2,mem=5000M,node=1` → 5000."""
    match = re.search(r"\bmem=(\d+(?:\.\d+)?)([KMGTP]?)", resources)
    if not match:
        return None
    factors = {"K": 1 / 1024, "": 1, "M": 1, "G": 1 << 10, "T": 1 << 20, "P": 1 << 30}
    return round(float(match[1]) * factors[match[2]])
