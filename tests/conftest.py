"""What all tests share: skipping can be forbidden, so that a green run means all was tested.

With GEMMGRID_NO_SKIP=1 a skipped test fails, unless its reason starts with `hardware:`: a GPU, an
Apple machine or a processor cannot be installed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

NO_SKIP = os.environ.get("GEMMGRID_NO_SKIP") == "1"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Iterator[None]:
    report = yield
    if NO_SKIP and report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if not reason.startswith("hardware:"):
            report.outcome = "failed"
            report.longrepr = f"skipping is forbidden here (GEMMGRID_NO_SKIP=1): {reason}"
    return report
