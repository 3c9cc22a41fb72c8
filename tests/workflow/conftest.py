"""Projects to run: one that has measured its tiny grid, and copies of it to spoil."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.workflow.project import Project


@pytest.fixture(scope="session")
def first_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, str]:
    """A project after its first run, and what that printed. Not to be changed."""
    project = Project(tmp_path_factory.mktemp("first"))
    return project, project.snakemake()


@pytest.fixture
def project(first_run: tuple[Project, str], tmp_path: Path) -> Project:
    """A project of one's own that has measured the tiny grid already."""
    source, _ = first_run
    folder = tmp_path / "project"
    shutil.copytree(source.folder, folder, symlinks=True)
    copy = Project.__new__(Project)
    copy.folder, copy.study = folder, folder / "study.yaml"
    return copy
