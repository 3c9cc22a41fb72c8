"""Pictures for the README: `python -m tests.browser.pictures RESULTS FOLDER` writes page.png, the
first screen of the page made from those results, and terminal.png, the beginning of the summary."""

from __future__ import annotations

import base64
import sys
from html import escape
from pathlib import Path

from gemmgrid.report.judge.findings import headlines
from gemmgrid.report.page import page
from gemmgrid.report.read.collect import collect
from gemmgrid.report.read.coverage import coverage
from gemmgrid.report.terminal.summary import summary
from tests.browser.webdriver import Browser

LINES = 30


def take(browser: Browser, results: Path, folder: Path) -> tuple[Path, Path]:
    """Both pictures, 1200 pixels wide."""
    folder.mkdir(parents=True, exist_ok=True)
    document = folder / "picture.html"
    collection = collect(results)
    page.write(collection, document)
    shown = _screen(browser, document, folder / "page.png", 800)
    told = summary(collection, Path("reports/index.html"), headlines(coverage(collection).rows))
    text = escape("\n".join(told.splitlines()[:LINES]))
    style = "body{margin:16px;background:#14171b;color:#e6e9ed}pre{font:15px/1.35 monospace}"
    document.write_text(f"<!doctype html><meta charset=utf-8><style>{style}</style><pre>{text}")
    printed = _screen(browser, document, folder / "terminal.png", 660)
    document.unlink()
    return shown, printed


def _screen(browser: Browser, document: Path, picture: Path, height: int) -> Path:
    browser.resize(1200, height)
    browser.open(document.absolute().as_uri())
    taken = browser.devtools("Page.captureScreenshot", format="png")
    picture.write_bytes(base64.b64decode(taken["data"]))
    return picture


if __name__ == "__main__":
    with Browser() as started:
        take(started, Path(sys.argv[1]), Path(sys.argv[2]))
