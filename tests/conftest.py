"""What all tests share: which of them are long, and that skipping can be forbidden.

`make test` leaves the long ones out, `make test-all` runs everything.

With GEMMGRID_NO_SKIP=1 a skipped test fails, unless its reason starts with `hardware:`: a GPU, an
Apple machine or a processor cannot be installed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

LONG = ("benchmarks", "browser", "conda", "slurm", "workflow", "test_fresh_clone.py")
"""Folders and files whose tests start whole workflows, a cluster or a browser; where one of them is
marked `short`, it belongs to `make test` all the same."""
NO_SKIP = os.environ.get("GEMMGRID_NO_SKIP") == "1"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        place = item.path.relative_to(here).parts[0]
        if place in LONG and not item.get_closest_marker("short"):
            item.add_marker("long")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Iterator[None]:
    report = yield
    if NO_SKIP and report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if not reason.startswith("hardware:"):
            report.outcome = "failed"
            report.longrepr = f"skipping is forbidden here (GEMMGRID_NO_SKIP=1): {reason}"
    return report
