"""benchmarks/on_gpu.sh, on the CPU: the records that it writes, and how it says what it cannot."""

from __future__ import annotations

import os
import re
import sys
import tarfile
from pathlib import Path

import pytest
from support import environments, on_gpu

from gemmgrid.plan.hardware import has_cuda, machine_name
from gemmgrid.records import history
from gemmgrid.records.cell import Cell
from gemmgrid.records.run import problems_of
from tests.benchmarks.conftest import patiently

SCRIPT = Path(on_gpu.__file__).parents[1] / "on_gpu.sh"


def start(*arguments: object, python: str | None = None, **variables: str):
    python = python or environments.ready("torch-cpu").python
    env = {**os.environ, "PYTHON": python, **variables}
    env.pop("PYTHONPATH", None)
    command = [str(SCRIPT), *map(str, arguments)]
    return patiently(command, env=env)


def test_records_are_packed_ready_for_the_results_folder(tmp_path):
    out = tmp_path / "out"
    done = start("--device", "cpu", "--quick", "--sizes", 32, OUT=str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 of 4 cells ok" in done.stdout
    machine = machine_name()
    assert [path.name for path in out.iterdir()] == [f"{machine}.tar.gz"]

    with tarfile.open(out / f"{machine}.tar.gz") as archive:
        archive.extractall(tmp_path / "results", filter="data")
    folder = tmp_path / "results" / machine
    assert (folder / "machine.json").exists()
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.jsonl"))
    assert files == [
        "torch-cpu-tf32/gemm.float32.32x32x32.t1.jsonl",
        "torch-cpu/gemm.bfloat16.32x32x32.t1.jsonl",
        "torch-cpu/gemm.float16.32x32x32.t1.jsonl",
        "torch-cpu/gemm.float32.32x32x32.t1.jsonl",
    ]
    precisions = {}
    for file in files:
        read = history.read(folder / file)
        assert not read.problems
        (run,) = read.runs
        assert problems_of(run) == []
        assert run["machine"] == machine
        assert run["status"] == "ok", run["reason"]
        line = rf"^{run['backend']} +{run['cell']['name']} .* GFLOP/s"
        assert re.search(line, done.stdout, re.M), done.stdout
        knobs = run["invocations"][0]["identity"]["precision"]
        precisions[run["backend"]] = knobs["float32_matmul_precision"]
    assert precisions == {"torch-cpu": "highest", "torch-cpu-tf32": "high"}


def test_a_second_time_adds_to_the_histories(tmp_path):
    arguments = ("--device", "cpu", "--quick", "--sizes", 16, "--precisions", "float16")
    arguments += ("--machine", "m", "--out", tmp_path)
    file = tmp_path / "m" / "torch-cpu" / "gemm.float16.16x16x16.t1.jsonl"
    assert start(*arguments).returncode == 0
    first = history.read(file).runs
    done = start(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    second = history.read(file).runs
    assert first
    assert second[: len(first)] == first
    assert len(second) > len(first)


def test_when_the_time_is_up_it_names_what_is_missing(tmp_path):
    done = start("--device", "cpu", "--minutes", 0, "--sizes", 16, "--out", tmp_path)
    assert done.returncode == 1
    assert "0 of 4 cells ok" in done.stdout
    assert "torch-cpu-tf32 gemm.float32.16x16x16.t1" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_without_a_gpu_it_says_so():
    if has_cuda():
        pytest.skip("hardware: this machine has an NVIDIA GPU")
    done = start()
    assert done.returncode == 2
    assert "finds no CUDA device" in done.stderr
    assert "--device cpu" in done.stderr


def test_a_python_without_torch_is_refused():
    done = start(python=sys.executable)
    assert done.returncode == 2
    assert f"{sys.executable} is not Python 3.11+ with torch" in done.stderr


def test_tf32_is_a_backend_of_its_own():
    found = list(on_gpu.tasks("cuda", (8192,), list(on_gpu.PRECISIONS)))
    assert [(task.backend, task.cell.dtype) for task in found] == [
        ("torch-cuda", "float32"),
        ("torch-cuda-tf32", "float32"),
        ("torch-cuda", "float16"),
        ("torch-cuda", "bfloat16"),
    ]
    assert found[1].options == {"float32_matmul_precision": "high"}
    assert not found[0].options


def test_the_sites_own_path_reaches_the_measured_processes():
    task = on_gpu.Task("torch-cuda", Cell("gemm", "float32", (8, 8, 8), 1), {})
    assert task.spec("cuda", "/opt/site")["variables"] == {"PYTHONPATH": "/opt/site"}
    assert task.spec("cuda", "")["variables"] == {}
