"""Synthetic records: invented machines and rates, for tests of the report. Nothing was measured.

Every record says so in its id and in its machine's notes, so that none can be taken for a result.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gemmgrid.records.cell import Cell, Options

HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>\"'`$(id)"
"""What a record from a stranger may hold in any text."""
LIBRARIES = {
    "numpy-openblas": ("numpy", "np.matmul(A, B, out=C)", "OpenBLAS", "0.3.31"),
    "cblas-mkl": ("cblas", "sgemm(A, B, C)", "MKL", "2026.2"),
    "torch-cpu": ("torch", "torch.matmul(A, B, out=C)", "MKL", "2024.2"),
    "jax-cpu": ("jax", "matmul(A, B)", "Eigen", "0.10.2"),
    "mlx-cpu": ("mlx", "C = mx.matmul(A, B)", "OpenBLAS", "0.3.21"),
}


@dataclass
class Machine:
    """A made-up machine: cores, GFLOP/s of one core in float32, spread between processes."""

    name: str
    cores: int = 2
    rate: float = 100.0
    spread: float = 0.01
    gpu: str | None = None


def gemm(n: int, dtype: str = "float32", threads: int = 1, **options: Any) -> Cell:
    return Cell("gemm", dtype, (n, n, n), threads, Options(**options))


def run(
    cell: Cell,
    machine: str = "machine-a",
    backend: str = "numpy-openblas",
    *,
    gflops: float = 100.0,
    spread: float = 0.01,
    seed: int = 0,
    status: str = "ok",
    reason: str | None = None,
    flags: Sequence[str] = (),
    invocations: int = 5,
    samples: int = 40,
    rounds: int = 1,
    hour: int = 12,
    **fields: Any,
) -> dict[str, Any]:
    """One run of a cell; `spread` is the relative deviation between processes.

    Its rounds begin every minute of `hour`: runs of one hour on one machine took turns."""
    adapter, expression, library, version = LIBRARIES.get(
        backend, ("numpy", "np.matmul(A, B, out=C)", "OpenBLAS", "0.3.31")
    )
    rng = np.random.default_rng([seed, *map(ord, cell.name + backend + machine)])
    inner = max(1, int(1e-3 * gflops * 1e9 / cell.flops))
    made = []
    for index in range(invocations if status in ("ok", "wrong", "implausible") else 0):
        centre = cell.flops / (gflops * 1e9) * np.exp(spread * rng.standard_normal())
        times = centre * np.exp(0.005 * rng.standard_normal(samples))
        made.append(
            {
                "index": index,
                "round": index % rounds + 1,
                "started_at": f"2026-11-30T{hour:02}:{index % rounds:02}:{index:02}.000000Z",
                "status": status,
                "inner": inner,
                "import_s": 0.1,
                "first_call_s": 0.004,
                "samples": {
                    "at_ns": [int(i * inner * centre * 1e9) for i in range(samples)],
                    "elapsed_ns": [max(1, round(t * inner * 1e9)) for t in times],
                    "device_ns": None,
                },
                "stop": "interval",
                "threads": {"asked": cell.threads, "seen": cell.threads},
                "verify": {"before": {"ok": True, "rel_error": 2.9e-7, "bound": 1e-5}},
                "effective_precision": cell.dtype,
            }
        )
    document = {
        "schema": 1,
        "id": f"20261130T120000.{seed:06d}Z-synthetic",
        "tool": {"version": "0.1.0", "commit": "0123456789abcdef", "dirty": False},
        "started_at": "2026-11-30T12:00:00.000000Z",
        "ended_at": "2026-11-30T12:00:04.000000Z",
        "machine": machine,
        "backend": backend,
        "adapter": adapter,
        "device": "cpu",
        "cell": cell.to_json(),
        "status": status,
        "reason": reason,
        "flags": list(flags),
        "failure": None,
        "host": {"id": "abcdefabcdef"},
        "gpu": None,
        "context": {"host": {}, "device": {}, "host_hash": "aaaaaaaaaaaa", "device_hash": None},
        "environment": {"deploy": "venv", "name": backend},
        "expression": expression,
        "library": {"name": library, "version": version, "file": f"/env/lib/{library}.so"},
        "settings": {"invocations": invocations, "rounds": rounds},
        "order": seed,
        "invocations": made,
        "conditions": {"before": {}, "after": {}},
        "evidence": None,
        "unknown": {},
    }
    return document | fields


def evidence(routine: str, kernel: str) -> dict[str, Any]:
    """Evidence as the dispatch wing records it: routine traced, kernel sampled."""
    return {
        "status": "ok",
        "reason": None,
        "routines": [{"evidence": "traced", "symbol": f"cblas_{routine}", "count": 1}],
        "kernels": [{"evidence": "sampled", "name": kernel, "samples": 210, "share": 0.93}],
        "hidden": [],
        "no_blas": None,
        "inconsistent": None,
    }


def slurm(node: str = "ice1", **changed: Any) -> dict[str, Any]:
    """A job's facts as its node records them."""
    facts = {
        "job_id": "40123",
        "node": node,
        "partition": "short",
        "features": ["icelake", "avx512"],
        "cluster": "toycluster",
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
    }
    return facts | changed


def stranger(cell: Cell, machine: str = "icelake", **fields: Any) -> dict[str, Any]:
    """A run in the machine's folder that a node of another kind made."""
    chosen = {
        "flags": ["one-round", "other-machine"],
        "host": {"id": "7f3a2c9b01de", "model": "Invented Milan", "cores": 64},
        "slurm": slurm("mil1", features=["milan"], exclusive=False),
        "promise": {
            "cpus": 64,
            "gpu": False,
            "platform": "linux-x86_64",
            "broken": ["64 CPUs are promised, 2 may be used"],
        },
    }
    return run(cell, machine, **(chosen | fields))


def write_cluster(results: Path) -> list[Cell]:
    """Two machines behind SLURM; some of icelake's cells landed on a node that is no such machine.

    Of icelake's five cells, the first three are measured on it, the second also on the other node
    later; the fourth only there, and the fifth only crashed there.
    """
    cells = [gemm(n) for n in (64, 128, 256, 512, 1024)]
    for machine, node in ((Machine("icelake", 2), "ice1"), (Machine("milan", 8, 140.0), "mil2")):
        write_machine(results, machine)
        for backend in ("numpy-openblas", "cblas-mkl"):
            for index, cell in enumerate(cells if machine.name == "milan" else cells[:3]):
                made = {"gflops": curve(machine, backend, cell), "seed": index}
                job = slurm(node, features=[machine.name])
                write_run(results, run(cell, machine.name, backend, slurm=job, **made))
    write_run(results, stranger(cells[1], gflops=999.0, seed=7))
    write_run(results, stranger(cells[3], gflops=998.0, seed=8))
    crashed = {"status": "crashed", "reason": "the process died of SIGILL while sampling"}
    write_run(results, stranger(cells[4], seed=9, **crashed))
    write_plan(results, [("numpy-openblas", cell, "planned", None) for cell in cells], "icelake")
    return cells


def write_run(results: Path, document: dict[str, Any], cell: Cell | None = None) -> Path:
    """Add the run to its cell's file, as one more line; a second machine gets its folder."""
    name = cell.name if cell else document["cell"]["name"]
    path = results / document["machine"] / document["backend"] / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(document) + "\n")
    return path


def write_machine(results: Path, machine: Machine) -> None:
    document = {
        "schema": 1,
        "notes": "synthetic",
        "recorded_at": "2026-11-30T11:59:00.000000Z",
        "architecture": None,  # so that nothing tells its identity: the runs' hosts are made up
        "cpu": {
            "model": f"Invented {machine.cores}-core",
            "sockets": 1,
            "cores": machine.cores,
            "logical": machine.cores,
            "threads_per_core": 1,
            "caches": [
                {"level": 1, "type": "data", "size_bytes": 32768, "count": machine.cores},
                {"level": 3, "type": "unified", "size_bytes": 32 << 20, "count": 1},
            ],
            "isa": ["avx2", "fma", "avx512f"][: 2 + machine.cores // 8],
            "max_mhz": None,
            "base_mhz": 2600.0,
        },
        "numa": 1,
        "memory_bytes": 24 << 30,
        "gpus": [{"name": machine.gpu, "memory_bytes": 80 << 30, "driver": "580.1"}]
        if machine.gpu
        else [],
        "os": "Debian GNU/Linux 12 (bookworm)",
        "kernel": "Linux 6.18",
        "virtualisation": "kvm",
        "unknown": {"cpu.max_mhz": "the kernel offers no cpufreq here"},
    }
    path = results / machine.name / "machine.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))


def write_plan(
    results: Path,
    cells: Iterable[tuple[str, Cell, str, str | None]],
    machine: str = "machine-a",
    deploy: str = "venv",
) -> Path:
    """plan.jsonl from (backend, cell, planned | excluded | unsupported, reason)."""
    header = {
        "schema": 1,
        "kind": "plan",
        "study": "synthetic",
        "machine": machine,
        "deploy": deploy,
        "seed": 1,
        "settings": {},
        "created_at": "2026-11-30T11:58:00.000000Z",
    }
    lines = [header]
    for order, (backend, cell, status, reason) in enumerate(cells):
        lines.append(
            {
                "machine": machine,
                "backend": backend,
                "adapter": backend.partition("-")[0],
                "device": "cpu",
                "cell": cell.to_json(),
                "name": cell.name,
                "path": f"results/{machine}/{backend}/{cell.name}.jsonl",
                "status": status,
                "reason": reason,
                "order": order,
            }
        )
    path = results / ".plan" / "plan.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def curve(machine: Machine, backend: str, cell: Cell) -> float:
    """A made-up rate that rises with size and threads as real ones do."""
    quality = {"numpy-openblas": 0.9, "cblas-mkl": 1.0, "torch-cpu": 0.95, "jax-cpu": 0.5}
    rate = machine.rate * quality.get(backend, 0.03) * cell.threads**0.93
    rate *= {"float64": 0.5, "float32": 1.0}.get(cell.dtype, 0.3)
    if cell.routine != "gemm":
        rate *= 0.08
    return rate * cell.n**2 / (cell.n**2 + 96**2)


def write_study(
    results: Path,
    machines: Sequence[Machine] = (Machine("machine-a"), Machine("machine-b", 8, 140.0)),
    sizes: Sequence[int] = (32, 64, 128, 256, 512, 1024),
    backends: Sequence[str] = ("numpy-openblas", "cblas-mkl", "torch-cpu", "jax-cpu", "mlx-cpu"),
    dtypes: Sequence[str] = ("float32", "float64"),
    samples: int = 40,
    rounds: int = 1,
) -> None:
    """A whole results folder: sizes × dtypes × threads on every machine, and a plan for the first.

    On the first machine, some cells fail in each of the ways there are, some are excluded, some
    have no run yet.
    """
    plan: list[tuple[str, Cell, str, str | None]] = []
    for machine in machines:
        write_machine(results, machine)
        counts = sorted({1, 2, machine.cores})
        cells = [gemm(n, dtype, t) for dtype in dtypes for t in counts for n in sizes]
        cells += [Cell("gemv", "float32", (n, n), 1) for n in sizes[::2]]
        for backend in backends:
            for index, cell in enumerate(cells):
                fields: dict[str, Any] = {}
                if backend == "numpy-openblas" and cell.routine == "gemm":
                    letter = {"float32": "s", "float64": "d"}.get(cell.dtype, "c")
                    fields["evidence"] = evidence(f"{letter}gemm64_", f"{letter}gemm_kernel_ZEN")
                document = run(
                    cell,
                    machine.name,
                    backend,
                    gflops=curve(machine, backend, cell),
                    spread=machine.spread,
                    seed=index,
                    samples=samples,
                    rounds=rounds,
                    flags=["one-round"] if rounds == 1 else [],
                    **fields,
                )
                write_run(results, document)
                if machine is machines[0]:
                    plan.append((backend, cell, "planned", None))
    plan += _write_failures(results, machines[0].name)
    write_plan(results, plan, machines[0].name)


def _write_failures(results: Path, machine: str) -> list[tuple[str, Cell, str, str | None]]:
    """One cell of every status, on the first machine; returns their lines of the plan."""
    failures = {
        "wrong": "relative error 0.31 is above the bound 1e-05",
        "implausible": "31000 GFLOP/s is above the peak of 166 (2 cores, AVX-512, 2.6 GHz)",
        "unsupported": "mlx has no complex128",
        "infeasible": "needs about 51.5 GB of memory; 20.1 GB are free",
        "oom": "the process was killed for its memory while sampling",
        "timeout": "no sample within 60 s",
        "crashed": "the process died of SIGSEGV while sampling",
        "env-failed": "pip could not find mkl==1.2.3",
        "lost": "the job ended without a word",
    }
    plan: list[tuple[str, Cell, str, str | None]] = []
    for index, (status, reason) in enumerate(failures.items()):
        cell = gemm(2048 + index)
        failure = {"stage": "sample", "stderr_tail": "Traceback\n  line 2\nSegmentation fault"}
        document = run(
            cell, machine, "mlx-cpu", status=status, reason=reason, failure=failure, expression=None
        )
        write_run(results, document)
        plan.append(("mlx-cpu", cell, "planned", None))
    plan += [("torch-cpu", gemm(3000 + i), "planned", None) for i in range(3)]
    plan.append(("jax-cpu", gemm(4096), "excluded", "exclude: n above 2048 for jax-cpu"))
    plan.append(("jax-cpu", gemm(64, "complex128"), "unsupported", "jax-cpu has no complex128"))
    return plan
