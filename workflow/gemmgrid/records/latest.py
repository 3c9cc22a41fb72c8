"""The beginning of a cell's newest run: enough to know what it answers, without its samples.

A run is one line whose first keys say what it is; the samples, most of the line, come last. A plan
of ten thousand cells reads ten thousand beginnings.
"""

from __future__ import annotations

import hashlib
import os
import re
from json import JSONDecoder
from pathlib import Path
from typing import Any

from gemmgrid.records import history

BLOCK = 1 << 16
ENOUGH = frozenset({"spec", "context"})
"""What is told of a run before one of these keys, and that key, is all that planning asks."""
NEEDED = ("id", "cell", "status", "flags")

_DECODER = JSONDecoder()
_BLANK = re.compile(r"[ \t\r\n]*")


def spec_digest(spec: str) -> str:
    """What a run keeps of the plan's spec: `context.digest` of the document whose text this is."""
    return hashlib.sha256(spec.encode()).hexdigest()[:12]


def beginning(path: Path) -> dict[str, Any] | None:
    """The first keys of the newest run of a history; None where it has none.

    A last line that is no run is passed over, as `history.latest` does.
    """
    try:
        line = _last_line(path)
    except OSError:
        return None
    found = _first_keys(line)
    if found is None or any(key not in found for key in NEEDED):
        return history.latest(path)
    return found


def _last_line(path: Path) -> bytes:
    with path.open("rb") as file:
        start = file.seek(0, os.SEEK_END)
        tail = b""
        while start > 0:
            step = min(BLOCK, start)
            start -= step
            file.seek(start)
            tail = file.read(step) + tail
            body = tail.rstrip(b"\n")
            if (newline := body.rfind(b"\n")) >= 0:
                return body[newline + 1 :]
        return tail.rstrip(b"\n")


def _first_keys(line: bytes) -> dict[str, Any] | None:
    """The keys of a JSON object up to the first of ENOUGH; None where it is no object."""
    try:
        text = line.decode("utf-8")
        place = _blank(text, 0)
        if text[place] != "{":
            return None
        found: dict[str, Any] = {}
        while text[place] in "{,":
            key, place = _DECODER.raw_decode(text, _blank(text, place + 1))
            place = _blank(text, place)
            if text[place] != ":":
                return None
            found[key], place = _DECODER.raw_decode(text, _blank(text, place + 1))
            if key in ENOUGH:
                break
            place = _blank(text, place)
    except (ValueError, IndexError, TypeError, RecursionError):
        return None
    return found


def _blank(text: str, place: int) -> int:
    match = _BLANK.match(text, place)
    return match.end() if match else place
