"""One synthetic study for the tests that only read it: it is made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmgrid.report.read.collect import Collection, collect
from tests.report import synthetic


@pytest.fixture(scope="session")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """results/ of two machines with every status in it; not to be changed."""
    results = tmp_path_factory.mktemp("study") / "results"
    synthetic.write_study(results, sizes=(64, 128, 256))
    return results


@pytest.fixture(scope="session")
def collection(study: Path) -> Collection:
    return collect(study)
