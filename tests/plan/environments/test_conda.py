"""What a job says of the conda environment that is active in it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from gemmgrid.plan.environments.command import main
from gemmgrid.plan.environments.conda import activation, describe

HOOK = """export MKL_INTERFACE_LAYER=LP64
export WITH_NEWLINE="one
two"
export FOUND_AT="$CONDA_PREFIX/share"
notexported=1
"""


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """The folder of an environment, as far as it is looked at."""
    made = tmp_path / "conda/abc_"
    (made / "bin").mkdir(parents=True)
    (made / "bin/python").symlink_to("/bin/sh")
    (made / "conda-meta").mkdir()
    meta = {"name": "numpy", "version": "2.4.6", "build": "py311_0", "depends": []}
    (made / "conda-meta/numpy-2.4.6-py311_0.json").write_text(json.dumps(meta))
    (made / "conda-meta/torn-1.json").write_text("{")
    return made


@pytest.fixture
def envs(tmp_path: Path) -> Path:
    folder = tmp_path / "envs"
    folder.mkdir()
    (folder / "numpy.yaml").write_text("dependencies:\n  - numpy\n")
    return folder


def test_the_environment_that_is_meant_is_described(prefix, envs):
    marker = describe("numpy", prefix, envs, active=str(prefix))
    assert (marker["status"], marker["reason"], marker["prefix"]) == ("ok", None, str(prefix))
    assert marker["packages"] == [
        {"name": "numpy", "version": "2.4.6", "build": "py311_0"},
        {"name": "torn-1", "version": None, "build": None},
    ]
    before = marker["lock_hash"]
    (envs / "numpy.yaml").write_text("dependencies:\n  - numpy\n  - mkl\n")
    assert before and describe("numpy", prefix, envs, active=str(prefix))["lock_hash"] != before


def test_another_one_or_none_that_is_active_is_told(prefix, envs, tmp_path, monkeypatch):
    other = describe("numpy", prefix, envs, active=str(tmp_path / "base"))
    assert other["status"] == "failed" and other["packages"] == []
    assert f"{prefix} was not activated: {tmp_path}/base is active in its place" in other["reason"]
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    assert "none is active" in describe("numpy", prefix, envs)["reason"]


def test_a_link_to_it_is_it(prefix, envs, tmp_path):
    (tmp_path / "link").symlink_to(prefix)
    assert describe("numpy", prefix, envs, active=str(tmp_path / "link"))["status"] == "ok"


def test_a_broken_one_is_told(prefix, envs):
    (prefix / "bin/python").unlink()
    marker = describe("numpy", prefix, envs, active=str(prefix))
    assert "is broken: it has no bin/python that runs" in marker["reason"]
    assert "Remove that folder" in marker["reason"]


def test_what_activating_sets(prefix, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_SHELL", "x")
    assert activation(prefix) == {
        "CONDA_PREFIX": str(prefix),
        "CONDA_DEFAULT_ENV": str(prefix),
    }
    hooks = prefix / "etc/conda/activate.d"
    hooks.mkdir(parents=True)
    (hooks / "mkl.sh").write_text(HOOK)
    (hooks / "loud.sh").write_text("echo said to standard output\nexport LOUD=1\n")
    (hooks / "other.fish").write_text("set -x FISH 1\n")
    (prefix / "conda-meta/state").write_text(json.dumps({"env_vars": {"OF_ITS_OWN": "é"}}))
    assert activation(prefix) == {
        "CONDA_PREFIX": str(prefix),
        "CONDA_DEFAULT_ENV": str(prefix),
        "MKL_INTERFACE_LAYER": "LP64",
        "WITH_NEWLINE": "one\ntwo",
        "FOUND_AT": f"{prefix}/share",
        "LOUD": "1",
        "OF_ITS_OWN": "é",
    }


def test_a_script_that_fails_costs_its_own_variables(prefix):
    hooks = prefix / "etc/conda/activate.d"
    hooks.mkdir(parents=True)
    (hooks / "a.sh").write_text("export BEFORE=1\nfalse\n")
    (hooks / "b.sh").write_text("export AFTER=1\n")
    assert activation(prefix)["AFTER"] == activation(prefix)["BEFORE"] == "1"


def test_the_command_writes_the_marker(prefix, envs, tmp_path, monkeypatch):
    monkeypatch.setenv("CONDA_PREFIX", str(prefix))
    marker = tmp_path / "markers/numpy.json"
    words = ["--prefix", str(prefix), "--envs", str(envs), "--marker", str(marker)]
    assert main(["conda", "numpy", *words]) == 0
    assert json.loads(marker.read_text())["status"] == "ok"
    shutil.rmtree(prefix)
    assert main(["conda", "numpy", *words]) == 0
    assert json.loads(marker.read_text())["status"] == "failed"
