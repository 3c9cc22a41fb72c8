"""Contrast of the page's colours, in both themes, by the formula of WCAG 2."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gemmgrid.report.draw import palette
from gemmgrid.report.page import page

CSS = (Path(page.__file__).parent / "assets" / "page.css").read_text(encoding="utf-8")


def variables(selector: str) -> dict[str, str]:
    start = CSS.index(selector)
    block = CSS[start : CSS.index("}", start)]
    return dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6})", block))


THEMES = {
    "light": variables(":root {"),
    "dark": variables('[data-theme="dark"]'),
    "dark by preference": variables(':not([data-theme="light"])'),
}


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def test_both_dark_themes_are_one() -> None:
    assert THEMES["dark"] == THEMES["dark by preference"]
    assert THEMES["light"].keys() == THEMES["dark"].keys()


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize(
    ("text", "ground"),
    [
        ("ink", "paper"),
        ("ink", "raised"),
        ("soft", "paper"),
        ("soft", "raised"),
        ("link", "paper"),
        ("good", "good-bg"),
        ("bad", "bad-bg"),
        ("warn", "warn-bg"),
        ("ink", "warn-bg"),
        ("ink", "bad-bg"),
        ("ink", "calm-bg"),
    ],
)
def test_text_can_be_read(theme: str, text: str, ground: str) -> None:
    colours = THEMES[theme]
    assert contrast(colours[text], colours[ground]) >= 4.5


@pytest.mark.parametrize("theme", THEMES)
def test_lines_can_be_seen(theme: str) -> None:
    colours = THEMES[theme]
    for index in range(len(palette.LIGHT)):
        assert contrast(colours[f"s{index}"], colours["paper"]) >= 3


def test_the_drawings_know_the_pages_colours() -> None:
    assert tuple(THEMES["light"][f"s{i}"] for i in range(len(palette.LIGHT))) == palette.LIGHT
