"""All CPU environments of this platform, by conda (the test double) and by uv, and what they run.

Prints, at the end of the test run, how each was made, how long it took with an empty and with a
full package cache, which library was seen, and what became of a small cell.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gemmgrid.plan.config.machines import local_target
from gemmgrid.plan.config.registry import load_registry
from gemmgrid.plan.environments import uv
from tests.conda.channel.contents import KEPT, channel_of, downloaded
from tests.conda.conftest import TABLE
from tests.conda.project import MACHINE, ROOT, STUDY, Project, clean

PLATFORM = local_target().platform
REGISTRY = load_registry(ROOT)
QUICK = {"machine": MACHINE, "sampling": STUDY["sampling"], "evidence": False}
BAD = {"env-failed", "crashed", "lost", "wrong"}


def cpu_environments() -> list[str]:
    """The environments for this machine's CPU that pip's packages can give."""
    return [
        backend.name
        for backend in REGISTRY.values()
        if backend.device == "cpu"
        and backend.environment == backend.name
        and PLATFORM in backend.venv_platforms
        and (ROOT / f"envs/{backend.name}.txt").exists()
    ]


@pytest.fixture(scope="module")
def environments() -> list[str]:
    """All of them; without torch where pip would take PyPI's CUDA build of it, 3 GB."""
    names = cpu_environments()
    if PLATFORM.startswith("linux"):
        try:
            downloaded([], KEPT / "torch", "--no-deps", pins=[_torch_for_the_cpu()])
        except subprocess.CalledProcessError:
            TABLE.append("torch-cpu: left out, pip finds no CPU wheel (PIP_FIND_LINKS)")
            names.remove("torch-cpu")
    return names


def _torch_for_the_cpu() -> str:
    lines = (ROOT / "envs/torch-cpu.txt").read_text().splitlines()
    return next(line for line in lines if line.startswith("torch==")) + "+cpu"


@pytest.fixture(scope="module")
def project(environments: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    folder = tmp_path_factory.mktemp("all")
    project = Project(
        folder / "project", channel_of(environments, with_report=True), folder / "pkgs"
    )
    project.study(QUICK)
    yield project
    subprocess.Popen(["rm", "-rf", str(folder)])  # 5 GB, which pytest would keep


Times = dict[str, tuple[float, float]]


@pytest.fixture(scope="module")
def by_conda(project: Project, environments: list[str]) -> Times:
    """Seconds to make each, with a package cache that has what earlier ones brought, and again."""
    seconds: Times = {}
    for name in environments:
        file = str(project.folder / f"envs/{name}.yaml")
        both = []
        for time_of in ("cold", "warm"):
            prefix = project.folder.parent / time_of / name
            start = time.monotonic()
            project.conda_text("env", "create", "--file", file, "--prefix", str(prefix))
            both.append(time.monotonic() - start)
        seconds[name] = (both[0], both[1])
    return seconds


@pytest.fixture(scope="module")
def by_uv(project: Project, environments: list[str]) -> Times:
    """The same with uv and its cache; the first ones lie in the project's .envs."""
    seconds: Times = {}
    for name in environments:
        cache = {"UV_CACHE_DIR": str(project.folder.parent / "uv")}
        cold = build_venv(project.folder / ".envs", name, cache)
        warm = build_venv(project.folder.parent / "warm-envs", name, cache)
        seconds[name] = (cold["seconds"], warm["seconds"])
    return seconds


def build_venv(into: Path, name: str, variables: dict[str, str]) -> dict[str, Any]:
    """Build a venv by the workflow's own command; returns the marker."""
    marker = into / f"{name}.json"
    command = [sys.executable, "-m", "gemmgrid", "build", name]
    places = ["--envs", str(ROOT / "envs"), "--into", str(into), "--marker", str(marker)]
    package = {"PYTHONPATH": str(ROOT / "workflow")}
    env = {**clean(os.environ), **variables, **package}
    subprocess.run([*command, *places], env=env, check=True, capture_output=True)
    made: dict[str, Any] = json.loads(marker.read_text())
    assert made["status"] == "ok", made
    return made


def table(made: str, seconds: Times, runs: dict[str, dict[str, Any]]) -> None:
    """Add a line for each environment to the table at the end."""
    TABLE.append(f"{made:22} {'cold s':>7} {'warm s':>7}  status      library seen")
    for name, (cold, warm) in seconds.items():
        run = runs[name]
        TABLE.append(f"{name:22} {cold:7.1f} {warm:7.1f}  {run['status']:10}  {library_of(run)}")
    cold, warm = (sum(times) for times in zip(*seconds.values(), strict=True))
    TABLE.append(f"{'all of them':22} {cold:7.1f} {warm:7.1f}")


def library_of(run: dict[str, Any]) -> str:
    """The BLAS that served, or the library itself where it brings its own code."""
    packages = (run["invocations"][0].get("identity") or {}).get("packages", {})
    versions = ", ".join(f"{name} {version}" for name, version in packages.items() if version)
    blas = run["library"]
    return f"{blas['name']} {blas['version']} under {versions}" if blas else versions


def last_runs(project: Project, names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Each backend's last run of the float32 product of size 512, whatever its threads."""
    runs = {}
    for name in names:
        [file] = project.folder.glob(f"results/{MACHINE}/{name}/gemm.float32.512x512x512.*.jsonl")
        runs[name] = json.loads(file.read_text().splitlines()[-1])
    return runs


@pytest.fixture(scope="module")
def snakemake_alone(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python with Snakemake and nothing else of ours, as a conda user may have it."""
    lines = (ROOT / "requirements/run.txt").read_text().splitlines()
    version = next(line for line in lines if line.startswith("snakemake=="))
    place = tmp_path_factory.mktemp("snakemake")
    python = str(place / "bin/python")
    for arguments in (["venv", "--python", sys.executable], ["pip", "install", "--python", python]):
        target = str(place) if arguments[0] == "venv" else version
        command = [*uv.command(), *arguments, target]
        subprocess.run(command, env=uv.environment(os.environ), check=True, capture_output=True)
    return python


def test_the_whole_default_grid_runs_with_conda(
    project: Project, environments: list[str], by_conda: Times, snakemake_alone: str
) -> None:
    """config/config.yaml's own grid, each cell sampled shortly, each backend in its environment.

    Under a Snakemake that has none of the report's packages: those are in an environment, too.
    """
    needed = "import importlib.util as u, sys; sys.exit(u.find_spec('seaborn') is not None)"
    subprocess.run([snakemake_alone, "-c", needed], check=True)
    project.python = snakemake_alone
    done = project.run("--use-conda", "--config", f"backends={','.join(environments)}")
    project.python = sys.executable
    files = list(project.folder.glob(f"results/{MACHINE}/*/*.jsonl"))
    assert {file.parent.name for file in files} == set(environments), done.stdout
    runs = [json.loads(file.read_text().splitlines()[-1]) for file in files]
    bad = [(one["backend"], one["cell"], one["reason"]) for one in runs if one["status"] in BAD]
    assert not bad
    for run in runs:
        kept = run["environment"]
        assert (kept["deploy"], kept["name"]) == ("conda", run["backend"])
        assert Path(kept["prefix"]).parent == project.folder / ".snakemake/conda"
        assert all(package["build"] for package in kept["packages"])
    assert done.returncode == 0, done.stdout
    assert (project.folder / "reports/index.html").exists()  # made in envs/report.yaml
    table("conda (test double)", by_conda, last_runs(project, environments))


def test_the_same_backends_run_without_conda(
    project: Project, environments: list[str], by_uv: Times
) -> None:
    sizes = {**STUDY["grid"][0], "shapes": [512], "threads": "all"}
    project.study({**STUDY, "grid": [sizes]})
    small = f"results/{MACHINE}/*/gemm.float32.512x512x512.*.jsonl"
    targets = [str(file.relative_to(project.folder)) for file in project.folder.glob(small)]
    done = project.run("--force", "--", *targets)
    assert "ready" in done.stdout and "built in" not in done.stdout, done.stdout
    runs = last_runs(project, environments)
    for name, run in runs.items():
        assert run["environment"]["deploy"] == "venv"
        assert run["environment"]["prefix"] == str(project.folder / f".envs/{name}")
        assert run["status"] not in BAD, run["reason"]
    table("uv (venvs)", by_uv, runs)


@pytest.mark.skipif(PLATFORM != "linux-x86_64", reason="hardware: MKL is made for x86-64 only")
def test_a_numpy_that_is_not_on_mkl_is_not_measured_as_mkl(project: Project) -> None:
    """The channel's NumPy is PyPI's, on its own OpenBLAS, whatever libblas lies beside it."""
    project.study({**STUDY, "grid": [{**STUDY["grid"][0], "backends": ["numpy-mkl"]}]})
    project.measure("numpy-mkl")
    [run] = project.runs("numpy-mkl")
    builds = {one["name"]: one["build"] for one in run["environment"]["packages"]}
    assert builds["libblas"] == "10_h0_mkl" and "mkl" in builds
    assert run["status"] == "env-failed"
    assert "promises blas: mkl for this backend, but OpenBLAS" in run["reason"]
