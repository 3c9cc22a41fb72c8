"""Channels and projects for the tests with the test double of conda (tests/conda/double).

The channels are made from PyPI's wheels when they are first needed, and kept; see
channel/contents.py. The table of environments that one test fills is printed at the end.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conda.channel.contents import channel_of
from tests.conda.project import Project

TABLE: list[str] = []
"""Lines for the end of the test run: how each environment was made, and what it measured."""


@pytest.fixture(scope="session")
def light() -> Path:
    """A channel with NumPy on OpenBLAS, and nothing heavier."""
    return _made(lambda: channel_of(["numpy-openblas"]))


@pytest.fixture(scope="session")
def whole() -> Path:
    """The same with a copy of the interpreter, as conda's own is, instead of links to it."""
    return _made(lambda: channel_of(["numpy-openblas"], whole_python=True))


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The double's package cache, shared, so that only the first environment unpacks."""
    return tmp_path_factory.mktemp("pkgs")  # hard links to it cost nothing more


@pytest.fixture
def project(tmp_path: Path, light: Path, cache: Path) -> Project:
    return Project(tmp_path / "project", light, cache)


def _made(make: Callable[[], Path]) -> Path:
    try:
        return make()
    except subprocess.CalledProcessError as error:
        pytest.fail(f"pip could not get the wheels of the test channel: {error.stderr}")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if TABLE:
        terminalreporter.section("environments (conda: the test double)")
        for line in TABLE:
            terminalreporter.write_line(line)
