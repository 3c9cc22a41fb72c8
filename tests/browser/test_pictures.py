"""The README's pictures can be made again."""

from __future__ import annotations

from pathlib import Path

from tests.browser.pictures import take
from tests.browser.webdriver import Browser
from tests.report import synthetic


def test_page_and_terminal_are_pictured(browser: Browser, tmp_path: Path) -> None:
    synthetic.write_study(tmp_path / "results", sizes=(64,), dtypes=("float32",))
    pictures = take(browser, tmp_path / "results", tmp_path / "pictures")
    for picture in pictures:
        content = picture.read_bytes()
        assert content.startswith(b"\x89PNG")
        assert int.from_bytes(content[16:20], "big") == 1200
    assert sorted((tmp_path / "pictures").iterdir()) == sorted(pictures)
