"""Conda environments are made on the submit host, once, and the nodes measure in them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.conda import conftest as conda
from tests.conda.project import CELL, STUDY, Project
from tests.slurm.cluster import Cluster
from tests.slurm.project import MACHINES

light, cache = conda.light, conda.cache


class CondaProject(Project):
    def target(self, backend: str, cell: str = CELL) -> str:
        return f"results/icelake/{backend}/{cell}.jsonl"


@pytest.fixture
def project(cluster: Cluster, tmp_path: Path, light: Path, cache: Path) -> CondaProject:
    return CondaProject(tmp_path / "project", light, cache)


def test_a_node_measures_in_the_conda_environment(project):
    study = {key: value for key, value in STUDY.items() if key != "machine"}
    grid = [{**study["grid"][0], "backends": ["numpy-openblas"]}]
    project.study({**study, "grid": grid, "machines": ["icelake"]})
    machines = project.folder / "config/machines.yaml"
    machines.write_text(yaml.safe_dump({"icelake": MACHINES["icelake"]}))
    sending = ("--use-conda", "--profile", "profiles/slurm", "--until", "settle")
    done = project.run(*sending, "--", project.target("numpy-openblas"))
    assert done.returncode == 0, done.stdout
    (run,) = project.runs("numpy-openblas")
    assert run["status"] == "ok", run["reason"]
    assert run["slurm"]["node"] in ("ice1", "ice2")
    assert run["environment"]["deploy"] == "conda"
    (prefix,) = project.environments()
    assert project.prefix("numpy-openblas") == prefix
    made, sent = done.stdout.index("Creating conda environment"), done.stdout.index("sent as SLURM")
    assert made < sent
