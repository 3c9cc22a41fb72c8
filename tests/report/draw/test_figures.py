"""The drawings: text stays text, colours follow the theme, the data is where it belongs."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from gemmgrid.report.draw import figures
from gemmgrid.report.draw.palette import LIGHT, Palette
from gemmgrid.report.draw.panels import Panel, size_sweeps, thread_scalings
from gemmgrid.report.read.collect import Collection


@pytest.fixture(scope="module")
def palette(collection: Collection) -> Palette:
    return Palette(collection.cells)


@pytest.fixture(scope="module")
def sweep(collection: Collection) -> Panel:
    return size_sweeps(collection.cells)[0]


@pytest.fixture(scope="module")
def drawing(sweep: Panel, palette: Palette) -> str:
    return figures.size_sweep(sweep, palette, "f1")


def texts(drawing: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(drawing).iter("text")]


def test_text_is_text_and_axes_are_named(drawing: str, sweep: Panel) -> None:
    found = texts(drawing)
    assert {"n", "GFLOP/s"} <= set(found)
    assert set(map(str, sweep.xs)) <= set(found)


def test_it_says_what_it_is(drawing: str, sweep: Panel) -> None:
    root = ElementTree.fromstring(drawing)
    assert root.get("role") == "img"
    assert root.get("aria-label") == f"{sweep.title}: GFLOP/s against n"
    assert root.get("width") is None
    assert root.get("viewBox")


def test_every_colour_follows_the_theme(drawing: str) -> None:
    fixed = set(re.findall(r"(?:fill|stroke|color): ?(#[0-9a-fA-F]{3,8})", drawing))
    assert fixed == set()
    assert "currentColor" in drawing
    assert "var(--s0)" in drawing
    assert "var(--grid)" in drawing


def test_nothing_points_out_of_the_page(drawing: str) -> None:
    assert "http" not in drawing
    assert "<metadata" not in drawing
    assert "<!DOCTYPE" not in drawing


def test_ids_of_two_drawings_do_not_clash(sweep: Panel, palette: Palette) -> None:
    ids = [
        set(re.findall(r'\bid="([^"]+)"', figures.size_sweep(sweep, palette, name)))
        for name in ("f1", "f2")
    ]
    assert ids[0]
    assert not ids[0] & ids[1]


def test_references_inside_hold(drawing: str) -> None:
    ids = set(re.findall(r'\bid="([^"]+)"', drawing))
    used = set(re.findall(r'href="#([^"]+)"', drawing)) | set(
        re.findall(r"url\(#([^)]+)\)", drawing)
    )
    assert used
    assert used <= ids


def test_a_line_and_a_band_for_every_series(drawing: str, sweep: Panel) -> None:
    lines = re.findall(r'<g id="f1-line2d_\d+">\s*<path[^>]*stroke: var\(--s\d\)', drawing)
    bands = re.findall(r"fill: var\(--s\d\)[^\"]*opacity: 0\.18", drawing)
    assert len(lines) == len(sweep.lines)
    assert len(bands) == len(sweep.lines)


def test_drawing_again_gives_the_same(drawing: str, sweep: Panel, palette: Palette) -> None:
    assert figures.size_sweep(sweep, palette, "f1") == drawing


def test_scaling_is_drawn(collection: Collection, palette: Palette) -> None:
    panel = thread_scalings(collection.cells)[0]
    drawing = figures.thread_scaling(panel, palette, "f9")
    assert {"threads", "speed-up over 1 thread"} <= set(texts(drawing))


def test_hostile_titles_are_escaped(sweep: Panel, palette: Palette) -> None:
    hostile = Panel('"><script>alert(1)</script>', sweep.lines, "n", limits=sweep.limits)
    drawing = figures.size_sweep(hostile, palette, "f1")
    assert "<script" not in drawing
    ElementTree.fromstring(drawing)


def test_backends_keep_their_look_on_every_panel(collection: Collection) -> None:
    palette = Palette(collection.cells)
    for backend in palette.backends:
        looks = {palette.look(machine, backend) for machine in palette.machines}
        assert len({(look.colour, look.marker) for look in looks}) == 1
        assert len({look.dash for look in looks}) == len(palette.machines)
    colours = {palette.look("machine-a", backend).light for backend in palette.backends}
    assert len(colours) == min(len(palette.backends), len(LIGHT))
