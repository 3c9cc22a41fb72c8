"""What an environment promises is checked where it is kept: in the process that measures.

Each promise is broken on purpose, in a conda environment (the test double's) and in a venv.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pytest import TempPathFactory

from tests.conda.project import UNTIL, Project

NUMPY = "numpy-openblas"
BOTH = pytest.mark.parametrize("deploy", ["conda", "venv"])


@BOTH
def test_another_python_in_the_environments_place_is_found_out(
    project: Project, deploy: str
) -> None:
    project.measure(NUMPY, deploy=deploy)
    python = project.prefix(NUMPY) / "bin/python"
    python.unlink()
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    project.measure(NUMPY, "--force", deploy=deploy)
    good, bad = project.runs(NUMPY)
    assert good["status"] == "ok" and bad["status"] == "env-failed"
    meant = good["environment"]["prefix"]
    assert bad["reason"] == (f"this Python belongs to {sys.prefix}, not to the environment {meant}")


@BOTH
def test_another_blas_than_the_named_one_is_found_out(project: Project, deploy: str) -> None:
    project.register(NUMPY, blas="mkl")
    project.measure(NUMPY, deploy=deploy)
    [run] = project.runs(NUMPY)
    assert run["status"] == "env-failed" and not run["invocations"][0].get("samples")
    assert "promises blas: mkl" in run["reason"]
    prefix = re.escape(run["environment"]["prefix"])
    assert re.search(rf"OpenBLAS [\d.]+ serves it, from {prefix}/\S*openblas", run["reason"])
    # A failed run also says what was installed.
    assert "numpy" in {one["name"] for one in run["environment"]["packages"]}


@pytest.fixture
def real_python(tmp_path: Path, whole: Path, cache: Path) -> Project:
    """A project whose conda environments have a whole Python, which looks for the user's packages
    as conda's own does (a link to another, like a venv's, would not)."""
    return Project(tmp_path / "project", whole, cache)


def put_numpy(site: Path) -> None:
    (site / "numpy").mkdir(parents=True)
    (site / "numpy/__init__.py").write_text("raise ImportError('this is the user’s NumPy')\n")


def test_the_users_own_packages_stay_out(real_python: Project, tmp_path: Path) -> None:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    put_numpy(tmp_path / f"home/.local/lib/{version}/site-packages")
    home = {"HOME": str(tmp_path / "home")}
    real_python.measure(NUMPY, **home)
    [run] = real_python.runs(NUMPY)
    assert run["status"] == "ok", run["reason"]
    assert run["library"]["file"].startswith(run["environment"]["prefix"])
    # It would have been taken: the same interpreter, as a user starts it.
    python = real_python.prefix(NUMPY) / "bin/python"
    careless = subprocess.run(
        [python, "-c", "import numpy"],
        env={**real_python.variables, **home},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "this is the user’s NumPy" in careless.stderr


class Measured(NamedTuple):
    """One run, started from a shell whose PYTHONPATH has a module that notes who imports it."""

    run: dict[str, Any]
    prefix: Path
    importers: set[str]


@pytest.fixture(scope="module")
def measured(
    request: pytest.FixtureRequest, light: Path, cache: Path, tmp_path_factory: TempPathFactory
) -> Measured:
    folder = tmp_path_factory.mktemp(request.param)
    project = Project(folder / "project", light, cache)
    log = folder / "importers"
    (folder / "sitecustomize.py").write_text(
        f"import sys\nwith open({str(log)!r}, 'a') as log:\n    print(sys.prefix, file=log)\n"
    )
    project.measure(NUMPY, deploy=request.param, PYTHONPATH=str(folder))
    [run] = project.runs(NUMPY)
    return Measured(run, project.prefix(NUMPY), set(log.read_text().splitlines()))


@pytest.mark.parametrize("measured", ["conda", "venv"], indirect=True)
def test_a_pythonpath_of_the_shell_stays_out(measured: Measured) -> None:
    assert measured.run["status"] == "ok", measured.run["reason"]
    assert sys.prefix in measured.importers  # Snakemake's own Python took it
    assert str(measured.prefix) not in measured.importers


@pytest.mark.parametrize("measured", ["conda", "venv"], indirect=True)
def test_the_named_blas_of_this_environment_served(measured: Measured) -> None:
    assert measured.run["library"]["family"] == "openblas"
    assert measured.run["library"]["file"].startswith(f"{measured.prefix}/")


@pytest.mark.parametrize("measured", ["conda"], indirect=True)
def test_conda_packages_are_recorded_with_their_builds(measured: Measured) -> None:
    files = sorted(measured.prefix.glob("conda-meta/*.json"))
    installed = [json.loads(file.read_text()) for file in files]
    recorded = measured.run["environment"]["packages"]
    assert recorded == [
        {key: package[key] for key in ("name", "version", "build")} for package in installed
    ]
    builds = {one["name"]: one["build"] for one in recorded}
    assert builds["libblas"] == "10_h0_openblas" and builds["numpy"].startswith("py3")


@pytest.mark.parametrize("measured", ["venv"], indirect=True)
def test_a_venvs_packages_are_recorded_with_their_versions(measured: Measured) -> None:
    code = (
        "import importlib.metadata as m, json\n"
        "print(json.dumps(sorted([d.name, d.version] for d in m.distributions())))"
    )
    python = measured.prefix / "bin/python"
    listed = json.loads(subprocess.check_output([python, "-I", "-c", code], text=True))
    recorded = measured.run["environment"]["packages"]
    assert [[one["name"], one["version"]] for one in recorded] == listed
    assert all(one["build"] is None for one in recorded)


def test_only_the_environment_whose_file_changed_is_built_again(project: Project) -> None:
    """Without conda: uv re-uses what is unchanged, across runs and backends."""
    names = (NUMPY, "numpy-again")
    (project.folder / "envs/numpy-again.txt").write_text("numpy==2.4.6\n")
    project.register("numpy-again", blas="openblas")
    target = [*UNTIL, "--", *(project.target(name) for name in names)]
    project.run(*target)
    stamps = {name: project.stamp(name) for name in names}
    changed = project.folder / "envs/numpy-again.txt"
    changed.write_text("numpy==2.4.6\npackaging==25.0\n")
    os.utime(changed, None)
    done = project.run("--force", *target)
    assert done.returncode == 0, done.stdout
    assert project.stamp(NUMPY) == stamps[NUMPY]
    assert project.stamp("numpy-again") != stamps["numpy-again"]
    packages = {one["name"] for one in project.runs("numpy-again")[-1]["environment"]["packages"]}
    assert packages == {"numpy", "packaging"}
