"""The evidence process of a cell, started as the supervisor starts it."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gemmgrid.measure.dispatch import watched_operands
from gemmgrid.measure.invocation import operands as timed_operands
from gemmgrid.records.cell import Cell
from tests.measure.dispatch.rows import ONE_THREAD
from tests.measure.interpreters import interpreter, variables

KEYS = {"status", "reason", "cost_s", "routines", "kernels", "hidden", "no_blas", "inconsistent",
        "slots_watched", "problems"}  # fmt: skip
ROUTINE = {
    "evidence",
    "symbol",
    "routine",
    "library",
    "caller",
    "args",
    "count",
    "reason",
    "source",
}
KERNEL = {"evidence", "name", "core", "count", "share", "samples", "library", "reason", "source"}


def evidence(
    folder: Path, environment: str, adapter: str, name: str, *python: str, **job: Any
) -> tuple[dict[str, Any], subprocess.CompletedProcess[str], float]:
    """The record, how the process ended, and the seconds it took in all."""
    document = {
        "cell": Cell.parse(name).to_json(), "backend": environment, "adapter": adapter,
        "device": "cpu", "blas": None, "options": {}, "settings": {}, "seed": 1, **job,
    }  # fmt: skip
    (folder / "job.json").write_text(json.dumps(document))
    module = python or ("-m", "gemmgrid.measure.dispatch")
    start = time.perf_counter()
    done = subprocess.run(
        [str(interpreter(environment)), "-s", *module, str(folder / "job.json"),
         str(folder / "out.json")],
        env={**variables(), **ONE_THREAD}, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    seconds = time.perf_counter() - start
    return json.loads((folder / "out.json").read_text()), done, seconds


@pytest.mark.parametrize(
    ("name", "routine", "hidden"),
    [
        ("gemm.float32.200x200x200.t1", "sgemm", []),
        ("gemm.float64.200x100x50.t1.tn", "dgemm", []),
        ("gemm.float32.64x64x64.t1.b8", "sgemm", ["per-slice"]),
        ("gemm.complex64.100x100x100.t1.alloc", "cgemm", []),
        ("gemm.float32.100x100x100.t1.ld64", "sgemm", []),
        ("gemm.float32.100x100x100.t1.cold", "sgemm", []),
        ("gemm.float32.100x100x100.t1.nt.reuse", "ssyrk", ["syrk"]),
        ("gemv.float32.200x100.t1", "sgemv", []),
        ("dot.float64.1000.t1", "ddot", []),
    ],
)
def test_a_numpy_cell(tmp_path: Path, name: str, routine: str, hidden: list[str]) -> None:
    record, done, _ = evidence(tmp_path, "numpy-openblas", "numpy", name)
    assert done.returncode == 0, done.stderr
    assert record["status"] == "ok"
    assert set(record) == KEYS
    assert {frozenset(part) for part in record["routines"]} == {frozenset(ROUTINE)}
    assert {frozenset(part) for part in record["kernels"]} == {frozenset(KERNEL)}
    assert record["routines"][0]["routine"] == routine
    assert record["kernels"][0]["evidence"] == "traced"
    assert [work["what"] for work in record["hidden"]] == hidden
    assert [file.name for file in tmp_path.iterdir() if "log" in file.name] == []


def test_a_scipy_cell_copies_nothing(tmp_path: Path) -> None:
    name = "gemm.float32.100x100x100.t1.beta1"
    record, _, _ = evidence(tmp_path, "scipy-openblas", "scipy", name)
    assert record["routines"][0]["args"]["beta"] == 1
    assert record["hidden"] == []


def test_a_slow_cell_is_left_as_soon_as_enough_is_known(tmp_path: Path) -> None:
    """NumPy's float16 loop would take minutes for this product."""
    name = "gemm.float16.3000x3000x3000.t1"
    record, done, seconds = evidence(tmp_path, "numpy-openblas", "numpy", name)
    assert done.returncode == 0
    assert "still ran" in record["reason"]
    assert record["no_blas"]["function"] == "HALF_matmul"
    assert seconds < 30
    assert [file.name for file in tmp_path.iterdir() if "log" in file.name] == []


@pytest.mark.parametrize("name", ["gemm.float32.2000x1500x1800.t1.tn.colmajor.ld16.beta1",
                                  "gemm.complex64.1200x1200x1200.t1.unaligned",
                                  "gemm.float64.700x700x700.t1.reuse"])  # fmt: skip
def test_large_operands_differ_from_the_timed_ones_in_their_values_alone(name: str) -> None:
    cell = Cell.parse(name)
    ours, timed = watched_operands.make(cell, 1), timed_operands.make(cell, 1)
    for mine, theirs in zip((ours.A, ours.B, ours.C), (timed.A, timed.B, timed.C), strict=True):
        assert mine is not None and theirs is not None
        assert (mine.shape, mine.strides, mine.dtype) == (
            theirs.shape,
            theirs.strides,
            theirs.dtype,
        )
        assert mine.ctypes.data % 64 == theirs.ctypes.data % 64
        assert np.isfinite(mine).all()
    assert (ours.B is ours.A) == (timed.B is timed.A)
    assert (ours.C0 is None) == (timed.C0 is None)
    small = Cell.parse("gemm.float32.64x64x64.t1")
    assert np.array_equal(watched_operands.make(small, 3).A, timed_operands.make(small, 3).A)


def test_an_unsupported_cell_is_skipped_with_its_reason(tmp_path: Path) -> None:
    name = "gemm.bfloat16.64x64x64.t1"
    record, done, _ = evidence(tmp_path, "numpy-openblas", "numpy", name)
    assert (done.returncode, record["status"]) == (0, "skipped")
    assert "bfloat16" in record["reason"]


def test_a_missing_library_is_told_with_its_stage(tmp_path: Path) -> None:
    record, done, _ = evidence(tmp_path, "numpy-openblas", "torch", "gemm.float32.64x64x64.t1")
    assert (done.returncode, record["status"]) == (0, "failed")
    assert "ModuleNotFoundError" in record["reason"]
    assert "importing" in record["reason"]


def test_a_crash_leaves_the_stage_behind(tmp_path: Path) -> None:
    """A test double of a library that crashes in the product: the process dies by a signal."""
    crash = tmp_path / "crash.py"
    crash.write_text(
        "import sys\n"
        "from pathlib import Path\n"
        "import numpy as np\n"
        "from gemmgrid.measure.dispatch import evidence, evidence_process as process\n"
        "def crashing(run, *args, **more):\n"
        "    import ctypes\n"
        "    ctypes.string_at(1)\n"
        "evidence.observe = crashing\n"
        "process.main(*map(Path, sys.argv[1:]))\n"
    )
    name = "gemm.float32.64x64x64.t1"
    record, done, _ = evidence(tmp_path, "numpy-openblas", "numpy", name, str(crash))
    assert done.returncode < 0
    assert record["status"] == "failed"
    assert "watching the product" in record["reason"]


def test_seed_and_time_are_all_that_may_differ(tmp_path: Path) -> None:
    records = []
    for seed in (1, 2):
        name = "gemm.float32.128x128x128.t1"
        record, _, _ = evidence(tmp_path, "numpy-openblas", "numpy", name, seed=seed)
        record.pop("cost_s")
        records.append(record)
    assert records[0] == records[1]
