"""Matplotlib's SVG made part of a page: it inherits the page's font and both of its themes."""

from __future__ import annotations

import re
from html import escape

from gemmgrid.report.draw.palette import LIGHT

TEXT = "#010203"
"""Drawn with these, a colour follows the theme: text and axes, …"""
GRID = "#040506"
"""… grid lines, …"""
PAPER = "#070809"
"""… and the page behind."""

_VARIABLES = {
    **{colour: f"var(--s{index})" for index, colour in enumerate(LIGHT)},
    TEXT: "currentColor",
    GRID: "var(--grid)",
    PAPER: "var(--paper)",
}
_COLOURS = re.compile("|".join(map(re.escape, _VARIABLES)), re.IGNORECASE)
_PROLOGUE = re.compile(r"<\?xml.*?\?>|<!DOCTYPE.*?>|<!--.*?-->|<metadata>.*?</metadata>", re.DOTALL)
_SIZE = re.compile(r'(<svg[^>]*?) (?:width|height)="[^"]*"')
_FONT = re.compile(r"font: (?:(?:normal|bold|[0-9]{3}) )?([0-9.]+)px [^;\"]*")
_SPACE = re.compile(r"\s*\n\s*")


def inline(drawing: str, title: str, identifier: str) -> str:
    """The drawing for inclusion in HTML.

    title: what it shows, for people who hear the page; identifier: unique on the page, put in front
    of every id in the drawing, since ids of several drawings would clash.
    """
    text = _PROLOGUE.sub("", drawing)
    for _ in range(2):
        text = _SIZE.sub(r"\1", text, count=1)
    text = _FONT.sub(r"font-size: \1px", text)
    text = _COLOURS.sub(lambda match: _VARIABLES[match[0].lower()], text)
    text = re.sub(r'\bid="', f'id="{identifier}-', text)
    text = re.sub(r'xlink:href="#', f'href="#{identifier}-', text)
    text = re.sub(r"url\(#", f"url(#{identifier}-", text)
    text = re.sub(r' xmlns(:\w+)?="[^"]*"| version="1.1"', "", text)
    named = f'<svg role="img" aria-label="{escape(title, quote=True)}"'
    return _SPACE.sub("\n", text.strip()).replace("<svg", named, 1)
