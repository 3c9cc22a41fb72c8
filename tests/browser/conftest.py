"""A browser for the tests, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gemmgrid.report.page import page
from gemmgrid.report.read.collect import collect
from tests.browser.webdriver import Browser, missing
from tests.report import synthetic


@pytest.fixture(scope="session")
def started() -> Iterator[Browser]:
    reason = missing()
    if reason:
        pytest.skip(reason)
    with Browser() as browser:
        yield browser


@pytest.fixture
def browser(started: Browser) -> Iterator[Browser]:
    """The browser as new: wide, light, nothing stored, nothing logged."""
    started.resize(1200, 900)
    started.prefer("light")
    yield started
    started.open("about:blank")


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of two machines and every status, on disk."""
    folder = tmp_path_factory.mktemp("report")
    synthetic.write_study(folder / "results", sizes=(64, 128, 256), dtypes=("float32", "float64"))
    page.write(collect(folder / "results"), folder / "index.html")
    return folder / "index.html"


@pytest.fixture
def opened(browser: Browser, report: Path) -> Browser:
    """The browser with the report open, its choices forgotten."""
    browser.open(report.as_uri())
    browser.run("localStorage.clear()")
    browser.open(report.as_uri())
    return browser
