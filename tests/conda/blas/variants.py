"""`make test-blas`: one NumPy, four BLAS libraries, four rates, libraries and kernels in one table.

Not among the tests that run by themselves: it builds NumPy from source (minutes, the first time)
and needs Debian's or Ubuntu's package lists, on x86-64 because of MKL.
"""

from __future__ import annotations

import csv
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conda.blas.channel import make
from tests.conda.project import MACHINE, STUDY, Project

FAMILIES = ("openblas", "mkl", "blis", "netlib")
BACKENDS = {f"numpy-{family}": family for family in FAMILIES}
SHOWN = ("backend", "dtype", "gflops", "library", "library_version", "kernel_seen")
GRID = [
    {
        "routine": "gemm",
        "backends": list(BACKENDS),
        "dtypes": ["float32", "float64"],
        "shapes": [1024],
        "threads": 1,
    }
]
SAMPLING = {"invocations": 5, "warmup_s": 0.1, "sample_s": 0.2, "min_samples": 3}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A project whose four NumPy environments differ in nothing but their BLAS."""
    if platform.machine() != "x86_64":
        pytest.skip("hardware: MKL is made for x86-64 only")
    if shutil.which("apt-get") is None:
        pytest.skip("the libraries come from Debian's packages, and there is no apt-get")
    folder = tmp_path_factory.mktemp("blas")
    project = Project(
        folder / "project", make(folder / "channel", folder / "work"), folder / "pkgs"
    )
    envs = project.folder / "envs"
    # Debian's BLIS is older than the one that envs/numpy-blis.yaml names.
    blis = (envs / "numpy-blis.yaml").read_text()
    (envs / "numpy-blis.yaml").write_text(blis.replace("blis 2.*", "blis 0.*"))
    openblas = (envs / "numpy-openblas.yaml").read_text()
    (envs / "numpy-netlib.yaml").write_text(openblas.replace("*_openblas", "*_netlib"))
    project.register("numpy-netlib", blas="netlib", dtypes=["float32", "float64"])
    project.study({**STUDY, "grid": GRID, "sampling": SAMPLING, "evidence": True})
    project.without_page()
    yield project
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def table(project: Project) -> list[dict[str, str]]:
    """The rows of results/tables/cells.csv, after measuring."""
    cells = [f"gemm.{dtype}.1024x1024x1024.t1" for dtype in ("float32", "float64")]
    targets = [f"results/{MACHINE}/{name}/{cell}.jsonl" for name in BACKENDS for cell in cells]
    done = project.run("--use-conda", "--", *targets)
    assert done.returncode == 0, done.stdout
    command = [sys.executable, "-m", "gemmgrid", "tables", "--results", "results"]
    path = {"PYTHONPATH": str(project.folder / "workflow")}
    subprocess.run(command, cwd=project.folder, env={**os.environ, **path}, check=True)
    with (project.folder / "results/tables/cells.csv").open() as file:
        rows = sorted(csv.DictReader(file), key=lambda row: (row["dtype"], row["backend"]))
    print(f"\n{' | '.join((*SHOWN, 'core that the library chose'))}")
    for row in rows:
        run = project.runs(row["backend"], row["cell"])[-1]
        print(" | ".join([*(row[key] for key in SHOWN), str((run["library"] or {}).get("core"))]))
    return rows


def test_every_variant_measures(table: list[dict[str, str]]) -> None:
    assert {(row["backend"], row["status"]) for row in table} == {
        (backend, "ok") for backend in BACKENDS
    }
    assert len(table) == 2 * len(BACKENDS)


def test_each_stands_on_the_library_that_it_names(
    project: Project, table: list[dict[str, str]]
) -> None:
    for name, family in BACKENDS.items():
        for dtype in ("float32", "float64"):
            run = project.runs(name, f"gemm.{dtype}.1024x1024x1024.t1")[-1]
            assert run["library"]["family"] == family
            assert run["library"]["file"].startswith(run["environment"]["prefix"])
    assert len({row["library"] for row in table}) == len(BACKENDS)


def test_numpy_is_the_same_in_all(project: Project, table: list[dict[str, str]]) -> None:
    numpys = set()
    for name in BACKENDS:
        run = project.runs(name, "gemm.float32.1024x1024x1024.t1")[-1]
        prefix = Path(run["environment"]["prefix"])
        [extension] = prefix.glob("lib/python*/site-packages/numpy/_core/_multiarray_umath*.so")
        numpys.add(extension.read_bytes())
    assert len(numpys) == 1


def test_each_has_its_own_kernels(project: Project, table: list[dict[str, str]]) -> None:
    """By name; Debian's BLIS is stripped, so that only the core that it chose is known."""
    for dtype in ("float32", "float64"):
        names = set()
        for backend, family in BACKENDS.items():
            run = project.runs(backend, f"gemm.{dtype}.1024x1024x1024.t1")[-1]
            kernel = run["evidence"]["kernels"][0]
            if kernel["name"] is None:
                assert family == "blis" and "stripped" in kernel["reason"]
                assert run["library"]["core"]
            names.add(kernel["name"] or run["library"]["core"])
        assert len(names) == len(BACKENDS), names
