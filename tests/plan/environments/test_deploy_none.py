"""DEPLOY=none: the interpreter at hand, what it has, and which backends it therefore is.

The interpreters are virtual environments of this Python; their libraries are folders with the
files that the plan looks at, so that nothing has to be installed.
"""

from __future__ import annotations

import os
import sys
import venv
from pathlib import Path

import pytest

from gemmgrid.plan import ConfigError
from gemmgrid.plan.environments import interpreter, interpreters
from tests.plan.conftest import block

CONFIG = """CONFIG = {{"Build Dependencies": {{
    "blas": {{
        "name": "{blas}",
        "found": True,
    }},
    "lapack": {{"name": "other"}},
}}}}
"""


@pytest.fixture
def host(tmp_path, monkeypatch, project):
    """A Python first on the PATH; `host(numpy="mkl", torch="")` gives it packages."""
    prefix = tmp_path / "host"
    venv.create(prefix, symlinks=True)
    monkeypatch.setenv("PATH", f"{prefix / 'bin'}{os.pathsep}{os.environ['PATH']}")
    interpreters.probe.cache_clear()

    def install(**packages: str) -> Path:
        (site,) = prefix.glob("lib/python*/site-packages")
        for name, blas in packages.items():
            folder = site / name
            folder.mkdir()
            (folder / "__init__.py").write_text("raise RuntimeError('nobody may import this')\n")
            if blas:
                (folder / "__config__.py").write_text(CONFIG.format(blas=blas))
        return prefix

    yield install
    interpreters.probe.cache_clear()


def measured(project, **config):
    plan = project.plan({"grid": [block()], **config}, deploy="none")
    return {cell.backend for cell in plan.cells}


@pytest.mark.parametrize(
    ("packages", "expected"),
    [
        ({"numpy": "scipy-openblas"}, {"numpy-openblas"}),
        ({"numpy": "mkl-sdl"}, {"numpy-mkl"}),
        ({"numpy": "blis"}, {"numpy-blis"}),
        ({"numpy": "blas"}, {"numpy-site"}),
        ({"numpy": ""}, {"numpy-site"}),
        ({"numpy": "mkl", "scipy": "mkl"}, {"numpy-mkl", "scipy-site"}),
        ({"numpy": "openblas", "scipy": "openblas"}, {"numpy-openblas", "scipy-openblas"}),
        ({"numpy": "openblas", "torch": "", "jax": ""}, {"numpy-openblas", "torch-cpu", "jax-cpu"}),
        ({"numpy": "mkl", "scipy_openblas64": ""}, {"numpy-mkl", "cblas-openblas"}),
    ],
)
def test_the_libraries_at_hand_are_the_backends(project, host, packages, expected):
    host(**packages)
    assert measured(project) == expected


def test_a_library_beside_the_interpreter_can_be_called_directly(project, host):
    prefix = host(numpy="mkl")
    (prefix / "lib/libmkl_rt.so.2").touch()
    assert measured(project) == {"numpy-mkl", "cblas-mkl"}


def test_named_backends_that_are_not_at_hand_say_what_is_missing(project, host):
    prefix = host(numpy="mkl")
    python = prefix / "bin/python3"
    grid = [
        block(backends=["numpy-mkl", "numpy-openblas", "numpy-site", "torch-cpu", "cblas-blis"])
    ]
    plan = project.plan({"grid": grid}, deploy="none")
    assert {one.backend: one.reason for one in plan.skipped} == {
        "numpy-openblas": f"the numpy of {python} was built on mkl",
        "numpy-site": f"the numpy of {python} is measured as mkl",
        "torch-cpu": f"{python} has no torch",
        "cblas-blis": f"{prefix} has no libblis library",
    }


def test_the_interpreter_is_the_first_on_the_path_outside_the_project(project, host, monkeypatch):
    prefix = host(numpy="mkl")
    for name in (".venv", ".envs/torch-cpu"):
        inside = project.root / name / "bin"
        inside.mkdir(parents=True)
        (inside / "python3").symlink_to(sys.executable)
        monkeypatch.setenv("PATH", f"{inside}{os.pathsep}{os.environ['PATH']}")
    plan = project.plan({"grid": [block()]}, deploy="none")
    (backend,) = plan.backends.values()
    assert interpreter(backend, "none", project.root) == str(prefix / "bin/python3")


def test_nothing_is_started_in_the_other_modes(project, host, monkeypatch):
    monkeypatch.setattr(interpreters.subprocess, "run", lambda *a, **k: pytest.fail("a process"))
    assert project.plan({"grid": [block()]}, deploy="venv").cells
    assert project.plan({"grid": [block()]}, deploy="conda").cells


def test_one_process_answers_for_all_backends(project, host, monkeypatch):
    host(numpy="mkl")
    started = []
    run = interpreters.subprocess.run
    monkeypatch.setattr(
        interpreters.subprocess, "run", lambda *a, **k: started.append(a) or run(*a, **k)
    )
    measured(project)
    measured(project)
    assert len(started) == 1


def test_no_interpreter_at_all(project, host, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match=r"the PATH has no python3 outside the project's \.venv"):
        measured(project)


def test_an_interpreter_that_does_not_start(project, host, monkeypatch, tmp_path):
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "python3").write_text("#!/bin/sh\nexit 3\n")
    (broken / "python3").chmod(0o755)
    monkeypatch.setenv("PATH", str(broken))
    with pytest.raises(ConfigError, match=r"broken/python3 does not start: .*DEPLOY=conda"):
        measured(project)


def test_behind_slurm_the_nodes_own_interpreter_decides(project, host, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    (project.root / "config/machines.yaml").write_text("icelake: {cpus: 4}\n")
    plan = project.plan(
        {"grid": [block(backends=["torch-cpu"])], "machines": ["icelake"]}, deploy="none"
    )
    assert [cell.backend for cell in plan.cells] == ["torch-cpu"]
