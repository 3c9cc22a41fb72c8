"""Rounds of a run as nodes leave them: made up, with only what joining and keeping them needs."""

from __future__ import annotations

from typing import Any

from gemmgrid.records.cell import Cell

CELL = "gemm.float32.512x512x512.t1"
CALL_NS = 20_000
"""Time of a call: 13 TFLOP/s, as of a large node."""


def slurm(**changed: Any) -> dict[str, Any]:
    """The `slurm` part of a run."""
    return {
        "job_id": "7",
        "node": "ice1",
        "partition": "cpu",
        "features": ["icelake"],
        "cluster": "toy",
        "account": "physics",
        "qos": "normal",
        "exclusive": True,
        "cpus_on_node": 64,
        "cpus_allocated": 64,
        "memory_mb": 4000,
        "gres": None,
        "restarts": 0,
        "affinity": [0, 1],
        "memory_limit_bytes": None,
        "unknown": {"memory_limit_bytes": "no control group limits it"},
    } | changed


def part(number: int = 1, rounds: int = 1, name: str = CELL, **changed: Any) -> dict[str, Any]:
    """One round of a cell on machine `ice`, with one process."""
    invocation = {
        "index": number - 1,
        "round": number,
        "status": "ok",
        "reason": None,
        "flags": [],
        "inner": 2,
        "samples": {"elapsed_ns": [2 * CALL_NS] * 30},
        "effective_precision": "float32",
        "expression": "np.matmul(A, B, out=C)",
        "identity": {"library": {"name": "OpenBLAS"}},
    }
    return {
        "schema": 1,
        "id": f"20261130T12000{number}.000000Z-aaaaaa",
        "tool": {"version": "0.1.0", "commit": None, "dirty": None},
        "started_at": f"2026-11-30T12:00:0{number}.000000Z",
        "ended_at": f"2026-11-30T12:00:0{number}.500000Z",
        "machine": "ice",
        "backend": "numpy-openblas",
        "adapter": "numpy",
        "device": "cpu",
        "cell": Cell.parse(name).to_json(),
        "status": "ok",
        "reason": None,
        "flags": ["few-invocations", "one-round"],
        "failure": None,
        "host": {"id": "aaaaaaaaaaaa"},
        "gpu": None,
        "slurm": slurm(),
        "promise": {"cpus": 64, "gpu": False, "platform": "linux-x86_64", "broken": []},
        "context": {"host": {}, "device": None},
        "environment": {"deploy": "venv", "name": "numpy-openblas"},
        "expression": "np.matmul(A, B, out=C)",
        "library": {"name": "OpenBLAS"},
        "settings": {"invocations": 5, "rounds": rounds},
        "order": 1,
        "invocations": [invocation],
        "conditions": {"before": {"at": f"before {number}"}, "after": {"at": f"after {number}"}},
        "evidence": None,
        "unknown": {},
    } | changed
