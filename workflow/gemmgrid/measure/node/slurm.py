"""What a SLURM job knows of itself: its id, the node and its features, and what share is its own.

The variables of the job tell some of it, `scontrol` the rest. Nothing here ever raises: what cannot
be known is None, with the reason in `unknown`.
"""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from gemmgrid.measure.host.job import job_id
from gemmgrid.system import cgroup
from gemmgrid.system.cpus import affinity

PATIENCE_S = 10.0
"""Seconds that the controller may take to answer; a job asks it twice on each of its nodes."""

Ask = Callable[[str, str], tuple[dict[str, str], str | None]]
"""What kind of thing, its name → its fields, and why there are none."""

SAME_JOB = ("SLURM_CLUSTER_NAME", "SLURM_JOB_NAME", "SLURM_JOB_START_TIME", "SLURM_TASK_PID")
"""Variables that tell a job from one of the same number, as a cluster set up anew gives them, and
from its own earlier life: the restart's number does not reach the steps of the jobstep plugin."""


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


def ask_once(variables: Mapping[str, str]) -> Ask:
    """`ask_controller` for this job's own description, its node's too, with a memory on the node.

    What the controller told one cell is told to the next ones of the same job, node and restart.
    A failed answer is not kept, so the next cell asks again.
    """
    names = (job_id(variables), variables.get("SLURMD_NODENAME"))
    parts = [*(name or "none" for name in names), variables.get("SLURM_RESTART_COUNT") or "0"]
    file_name = re.sub(r"[^\w.-]", "_", f"gemmgrid-slurm-{'-'.join(parts)}.json")
    file = Path(tempfile.gettempdir()) / file_name
    job = {key: variables.get(key) for key in SAME_JOB}
    told = _recall(file, job)

    def ask(kind: str, name: str) -> tuple[dict[str, str], str | None]:
        if kind in told:
            return told[kind], None
        answer, problem = ask_controller(kind, name)
        if answer and not problem:
            told[kind] = answer
            _remember(file, {"of": job, "told": told})
        return answer, problem

    return ask


def _recall(file: Path, job: Mapping[str, str | None]) -> dict[str, dict[str, str]]:
    """What this user's own file holds of this very job; empty where it is another's, or odd."""
    try:
        # Anybody may put anything under this name: no link is followed, no pipe waited for.
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as opened:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or stat.S_IMODE(status.st_mode) & 0o077:
                return {}
            if status.st_uid != os.geteuid():
                return {}
            document = json.load(opened)
        if document["of"] != job:
            return {}
        return {kind: dict(answer) for kind, answer in document["told"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def _remember(file: Path, document: Mapping[str, Any]) -> None:
    """Write it for this user alone, whole or not at all; without it the next cell asks again."""
    with suppress(OSError):
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name[:200]}.")  # 0600
        try:
            with os.fdopen(handle, "w") as beside:
                json.dump(document, beside)
            Path(name).replace(file)
        finally:
            Path(name).unlink(missing_ok=True)


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
    variables: Mapping[str, str] = os.environ, ask: Ask | None = None
) -> dict[str, Any] | None:
    """The `slurm` part of a run; None outside SLURM. Keys: see docs/records.md.

    ask   who is asked about the job and the node; by default the controller, once a job and node
    """
    job = job_id(variables)
    if job is None:
        return None
    ask = ask or ask_once(variables)
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
