"""A real cluster for the tests of this folder, and projects that send their cells to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm import cluster as slurm
from tests.slurm.project import SlurmProject


@pytest.fixture(scope="session")
def running_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[slurm.Cluster]:
    problem = slurm.missing()
    if problem:
        pytest.skip(problem)
    one = slurm.Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        one.start()
        yield one
    finally:
        one.stop()


@pytest.fixture
def cluster(running_cluster: slurm.Cluster) -> Iterator[slurm.Cluster]:
    """The cluster with all nodes idle, and put right again afterwards."""
    yield running_cluster
    if running_cluster.idle() != set(slurm.nodes.NODES):
        running_cluster.revive()


@pytest.fixture
def project(cluster: slurm.Cluster, tmp_path: Path) -> SlurmProject:
    return SlurmProject(tmp_path / "project")
