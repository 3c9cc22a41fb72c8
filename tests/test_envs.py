"""The environment files: complete, pinned, and the same stack for conda and for pip."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
ENVS = ROOT / "envs"

BACKENDS = {
    *("numpy-openblas", "numpy-mkl", "numpy-blis", "numpy-accelerate"),
    *("scipy-openblas", "cblas-openblas", "cblas-mkl"),
    *("torch-cpu", "torch-cuda", "torch-mps", "mlx-cpu", "mlx-gpu", "jax-cpu", "jax-cuda"),
}
NOT_WITH_PIP = {"numpy-mkl", "numpy-blis"}
"""No wheel of NumPy is built on MKL or BLIS."""
CONDA_NAMES = {"torch": {"pytorch", "pytorch-cpu", "pytorch-gpu"}}
"""What conda-forge calls a package of PyPI, where the names differ."""
PIP_ONLY = {"scipy-openblas64", "intel-openmp"}
"""On PyPI only: OpenBLAS as a wheel (conda: libopenblas); Intel's OpenMP (conda: LLVM's)."""
EXACT = {"numpy", "scipy", "torch"}
"""Pinned to one version for conda too. The others are pinned to their series: conda-forge does not
build every one of their releases, and the run records which one there was."""

SPEC = re.compile(
    r"(?P<name>[a-z0-9][a-z0-9-]*) (?P<version>==\d+(\.\d+)+|\d+(\.\d+)*\.\*)( (?P<build>\S+))?"
)
PIN = re.compile(r"(?P<name>[a-z0-9][a-z0-9-]*)(\[[a-z0-9,]+\])?==(?P<version>\d+(\.\d+)+)")

REPORT = "report"
"""Not a backend's: the environment of the tables and the page under --use-conda."""
YAMLS = sorted(path.stem for path in ENVS.glob("*.yaml") if path.stem != REPORT)
LOCKS = sorted(path.stem for path in ENVS.glob("*.txt"))


def conda(name: str) -> dict[str, re.Match[str]]:
    """The specs of an environment's .yaml, by package."""
    document = yaml.safe_load((ENVS / f"{name}.yaml").read_text())
    specs = [(text, SPEC.fullmatch(text)) for text in document["dependencies"]]
    assert all(match for _, match in specs), f"{name}.yaml: {[t for t, m in specs if not m]}"
    return {match["name"]: match for _, match in specs if match}


def pip(name: str) -> dict[str, str]:
    """The versions of an environment's .txt, by package."""
    lines = (ENVS / f"{name}.txt").read_text().splitlines()
    pins = [(line, PIN.fullmatch(line)) for line in lines if not line.startswith("#")]
    assert all(match for _, match in pins), f"{name}.txt: {[line for line, m in pins if not m]}"
    return {match["name"]: match["version"] for _, match in pins if match}


def admits(spec: str, version: str) -> bool:
    """Whether conda's `==2.4.6` or `0.10.*` takes that version."""
    if spec.startswith("=="):
        return spec[2:] == version
    return f"{version}.".startswith(spec.removesuffix("*"))


def test_every_backend_has_its_files() -> None:
    assert set(YAMLS) >= BACKENDS
    assert set(YAMLS) >= set(LOCKS) >= BACKENDS - NOT_WITH_PIP
    assert NOT_WITH_PIP.isdisjoint(LOCKS)


def test_the_registry_names_only_environments_that_exist() -> None:
    registry = yaml.safe_load((ROOT / "config/backends.yaml").read_text())
    site = {name for name in registry if name.endswith("-site")}  # DEPLOY=none only
    named = {entry.get("environment", name) for name, entry in registry.items()}
    assert named - site == set(YAMLS)
    assert {name for name in registry if name not in site} >= BACKENDS


@pytest.mark.parametrize("name", [*YAMLS, REPORT])
def test_conda_files_use_one_channel_and_one_python(name: str) -> None:
    document = yaml.safe_load((ENVS / f"{name}.yaml").read_text())
    assert document.keys() == {"channels", "dependencies"}
    assert document["channels"] == ["conda-forge"]
    specs = conda(name)
    assert list(specs)[:2] == ["python", "numpy"]
    assert specs["python"]["version"] == "3.11.*"


@pytest.mark.parametrize("name", YAMLS)
def test_numpy_scipy_and_torch_are_pinned_exactly(name: str) -> None:
    exact = EXACT.union(*(CONDA_NAMES.get(package, set()) for package in EXACT))
    specs = conda(name)
    for package in exact & specs.keys():
        assert specs[package]["version"].startswith("=="), package


@pytest.mark.parametrize("name", LOCKS)
def test_pip_and_conda_say_the_same_versions(name: str) -> None:
    specs, compared = conda(name), []
    for package, version in pip(name).items():
        if package in PIP_ONLY:
            continue
        [spec] = [
            specs[spelling]["version"]
            for spelling in CONDA_NAMES.get(package, {package})
            if spelling in specs
        ]
        assert admits(spec, version), f"{package}: conda {spec}, pip {version}"
        compared.append(package)
    assert "numpy" in compared


def test_a_package_has_one_version_everywhere() -> None:
    versions: dict[str, set[str]] = {}
    for name in LOCKS:
        for package, version in pip(name).items():
            versions.setdefault(package, set()).add(version)
    assert {package: found for package, found in versions.items() if len(found) > 1} == {}
    specs: dict[str, set[str]] = {}
    for name in YAMLS:
        for package, spec in conda(name).items():
            specs.setdefault(package, set()).add(spec["version"])
    assert {package: found for package, found in specs.items() if len(found) > 1} == {}


@pytest.mark.parametrize("name", sorted(name for name in BACKENDS if name.startswith("numpy-")))
def test_numpys_blas_is_chosen_by_its_build(name: str) -> None:
    build = conda(name)["libblas"]["build"]
    # Written *_newaccelerate: *accelerate would match the older interface too.
    blas = name.removeprefix("numpy-").replace("accelerate", "newaccelerate")
    assert build == f"*_{blas}"


@pytest.mark.parametrize("name", ["torch-cuda", "jax-cuda"])
def test_cuda_environments_take_cuda_builds(name: str) -> None:
    specs = conda(name)
    assert "cuda-version" in specs
    assert "pytorch-gpu" in specs or specs["jaxlib"]["build"] == "cuda*"


@pytest.mark.parametrize("name", YAMLS)
def test_nothing_but_the_backend_is_installed(name: str) -> None:
    """The measured side is the standard library, NumPy and the one backend."""
    allowed = {
        *("python", "numpy", "scipy", "libblas", "libopenblas", "mkl", "blis"),
        *("pytorch", "pytorch-cpu", "pytorch-gpu", "mlx", "jax", "jaxlib", "cuda-version"),
    }
    assert conda(name).keys() <= allowed


def test_the_reports_environment_has_what_the_report_imports() -> None:
    """All of it, and nothing else; a table of Parquet needs pyarrow without importing it."""
    packages = {
        **{"matplotlib": "matplotlib-base", "seaborn": "seaborn-base"},
        "markupsafe": "jinja2",
    }
    imported = {"pyarrow"}
    for folder in ("report", "records"):
        for file in (ROOT / "workflow/gemmgrid" / folder).rglob("*.py"):
            found = re.findall(r"^\s*(?:from|import) (\w+)", file.read_text(), re.MULTILINE)
            imported.update(set(found) - sys.stdlib_module_names - {"gemmgrid"})
    assert {packages.get(name, name) for name in imported} == conda(REPORT).keys() - {"python"}


@pytest.mark.parametrize(
    ("spec", "version", "taken"),
    [
        ("==2.4.6", "2.4.6", True),
        ("==2.4.6", "2.4.60", False),
        ("0.10.*", "0.10.2", True),
        ("0.1.*", "0.10.2", False),
        ("2026.*", "2026.2.0", True),
    ],
)
def test_the_comparison_of_versions_can_fail(spec: str, version: str, taken: bool) -> None:
    assert admits(spec, version) is taken
