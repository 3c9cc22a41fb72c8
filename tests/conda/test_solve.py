"""Every env file, solved for every platform: it must solve where a backend may run, or be refused.

On metadata shaped like conda-forge's recipes (recipes.py) and with rattler's real solver, so that a
wrong build string or version shows. Whether the real channel has the packages, this does not show.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
import rattler
import yaml
from rattler import Channel, Gateway, GenericVirtualPackage, MatchSpec, PackageName, Version
from rattler.exceptions import SolverError
from rattler.platform import Subdir

from gemmgrid.plan.config.machines import Target
from gemmgrid.plan.config.registry import Backend, load_registry
from gemmgrid.plan.grid.availability import Availability
from tests.conda.recipes import ALL, ARM, MAC, X86, conda_forge

ROOT = Path(__file__).resolve().parents[2]
PLATFORMS = {X86: "linux-x86_64", ARM: "linux-aarch64", MAC: "macos-arm64"}
VIRTUAL = {
    X86: {"__unix": "0", "__linux": "6.1", "__glibc": "2.36"},
    ARM: {"__unix": "0", "__linux": "6.1", "__glibc": "2.36"},
    MAC: {"__unix": "0", "__osx": "15.6"},
}
REGISTRY = load_registry(ROOT)
BACKENDS = [one for one in REGISTRY.values() if not one.name.endswith("-site")]
MEASURED = sorted({backend.environment for backend in BACKENDS})


@pytest.fixture(scope="module")
def channel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recipes")
    conda_forge().write(folder)
    return folder


def solve(channel: Path, specs: list[str], subdir: str, cuda: bool = False) -> dict[str, str]:
    """Versions and builds by package; SolverError where there is no solution."""
    virtual: Mapping[str, str] = VIRTUAL[subdir] | ({"__cuda": "13.0"} if cuda else {})
    build = rattler.BuildString("0")
    records = asyncio.run(
        rattler.solve(
            [Channel(channel.as_uri())],
            [MatchSpec(spec, strict=True) for spec in specs],
            gateway=Gateway(cache_dir=channel / "cache"),
            platforms=[Subdir(subdir), Subdir("noarch")],
            virtual_packages=[
                GenericVirtualPackage(PackageName(name), Version(version), build)
                for name, version in virtual.items()
            ],
        )
    )
    return {record.name.normalized: f"{record.version} {record.build}" for record in records}


def specs_of(environment: str) -> list[str]:
    document = yaml.safe_load((ROOT / f"envs/{environment}.yaml").read_text())
    specs: list[str] = document["dependencies"]
    return specs


def users(environment: str) -> list[Backend]:
    return [backend for backend in BACKENDS if backend.environment == environment]


def wanted(environment: str, subdir: str) -> bool:
    return any(PLATFORMS[subdir] in backend.platforms for backend in users(environment))


EXPECTED = {
    "numpy-openblas": {"libblas": "3.11.0 10_h0_openblas", "numpy": "2.4.6 py311h0_0"},
    "numpy-mkl": {"libblas": "3.11.0 10_h0_mkl", "mkl": "2026.1.0 h0_0"},
    "numpy-blis": {"libblas": "3.11.0 10_h0_blis", "blis": "2.1 pthreads_h0_0"},
    "numpy-accelerate": {"libblas": "3.11.0 10_h0_newaccelerate"},
    "scipy-openblas": {"libblas": "3.11.0 10_h0_openblas", "scipy": "1.17.1 py311h0_0"},
    "cblas-openblas": {"libopenblas": "0.3.34 pthreads_h0_0"},
    "cblas-mkl": {"libblas": "3.11.0 10_h0_openblas", "mkl": "2026.1.0 h0_0"},
    "torch-cpu": {"pytorch": r"2.13.0 cpu_\w+_py311_h0_\d+"},
    "torch-cuda": {"pytorch": r"2.13.0 cuda129_\w+_py311_h0_\d+", "cuda-version": "12.9 h0_3"},
    "torch-mps": {"pytorch": "2.13.0 cpu_generic_py311_h0_2"},
    "mlx-cpu": {"mlx": "0.32.0 py311h0_0"},
    "mlx-gpu": {"mlx": "0.32.0 py311h0_0"},
    "jax-cpu": {"jaxlib": "0.10.1 cpu_py311h0_0", "jax": "0.10.1 pyhd8ed1ab_0"},
    "jax-cuda": {"jaxlib": "0.10.1 cuda129_py311h0_200", "cuda-version": "12.9 h0_3"},
}
"""What must be chosen among the recipes' builds, as patterns."""


def test_every_environment_of_the_registry_is_here() -> None:
    assert set(EXPECTED) == set(MEASURED)


@pytest.mark.parametrize("subdir", ALL)
@pytest.mark.parametrize("environment", MEASURED)
def test_an_environment_solves_where_its_backend_runs(
    channel: Path, environment: str, subdir: str
) -> None:
    cuda = any(backend.device == "cuda" for backend in users(environment))
    if not wanted(environment, subdir):
        # Refused by the plan, whatever a solver would say (torch-mps solves on Linux too).
        for backend in users(environment):
            assert_refused(backend, subdir)
        return
    found = solve(channel, specs_of(environment), subdir, cuda)
    for package, pattern in EXPECTED[environment].items():
        assert re.fullmatch(pattern, found[package]), f"{package}: {found[package]}"
    assert found["python"].startswith("3.11.") and found["numpy"].startswith("2.4.6 ")


@pytest.mark.parametrize("subdir", ALL)
def test_the_reports_environment_solves_everywhere(channel: Path, subdir: str) -> None:
    assert solve(channel, specs_of("report"), subdir)["pandas"].startswith("3.0.")


def assert_refused(backend: Backend, subdir: str) -> None:
    platform = PLATFORMS[subdir]
    here = Target("here", platform, cuda=True, cpus=8, cores=8)
    problem = Availability("conda", ROOT, REGISTRY.values()).problem(backend, here)
    assert problem, f"{backend.name} would be attempted on {platform}"
    assert problem == backend.reason[platform]


UNSOLVABLE = [
    *((name, subdir) for name in ("numpy-mkl", "cblas-mkl") for subdir in (ARM, MAC)),
    *(("numpy-accelerate", subdir) for subdir in (X86, ARM)),
    *((name, MAC) for name in ("torch-cuda", "jax-cuda")),
]
SOLVABLE_YET_REFUSED = [
    ("numpy-blis", MAC),
    *(("torch-mps", subdir) for subdir in (X86, ARM)),
    *(("mlx-gpu", subdir) for subdir in (X86, ARM)),
]


@pytest.mark.parametrize(("environment", "subdir"), UNSOLVABLE)
def test_what_no_channel_has_does_not_solve(channel: Path, environment: str, subdir: str) -> None:
    with pytest.raises(SolverError):
        solve(channel, specs_of(environment), subdir, cuda=subdir != MAC)


@pytest.mark.parametrize(("environment", "subdir"), SOLVABLE_YET_REFUSED)
def test_the_plan_refuses_what_a_solver_would_take(
    channel: Path, environment: str, subdir: str
) -> None:
    assert solve(channel, specs_of(environment), subdir)
    for backend in users(environment):
        assert_refused(backend, subdir)


def test_all_refusals_are_of_one_kind() -> None:
    refused = {(env, sub) for env in MEASURED for sub in ALL if not wanted(env, sub)}
    assert refused == {*UNSOLVABLE, *SOLVABLE_YET_REFUSED}


@pytest.mark.parametrize("environment", ["torch-cuda", "jax-cuda"])
def test_cuda_environments_need_a_driver_or_the_override(channel: Path, environment: str) -> None:
    with pytest.raises(SolverError):
        solve(channel, specs_of(environment), X86)
    assert solve(channel, specs_of(environment), X86, cuda=True)


@pytest.mark.parametrize(
    "specs",
    [
        ["python 3.11.*", "numpy ==2.5.1"],  # needs Python 3.12
        ["python 3.11.*", "numpy ==2.4.6", "libblas 3.11.* *_mkl", "libblas 3.11.* *_openblas"],
        ["python 3.11.*", "libblas 3.11.* *_atlas"],
        ["pytorch-cpu ==2.13.0", "pytorch-gpu ==2.13.0"],
    ],
)
def test_a_wrong_file_would_be_noticed(channel: Path, specs: list[str]) -> None:
    with pytest.raises(SolverError):
        solve(channel, specs, X86, cuda=True)
