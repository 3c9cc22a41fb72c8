"""This process's memory map, as Linux tells it in /proc/self/maps.

Read by hand: psutil, which has the same, is in no backend's environment.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

READ, WRITE, EXECUTE = 1, 2, 4


@dataclass(frozen=True)
class Region:
    """One line of the map: addresses, protection, and the file behind it with its offset there."""

    start: int
    end: int
    protection: int
    offset: int
    path: str


class MemoryMap:
    """The regions of this process at one moment."""

    def __init__(self) -> None:
        text = Path("/proc/self/maps").read_text(encoding="utf-8", errors="surrogateescape")
        self._lines = text.splitlines()
        self._starts = [int(line[: line.index("-")], 16) for line in self._lines]

    def __iter__(self) -> Iterator[Region]:
        return map(_region, self._lines)

    def at(self, address: int) -> Region | None:
        """The region that holds the address."""
        position = bisect_right(self._starts, address) - 1
        if position < 0:
            return None
        region = _region(self._lines[position])
        return region if address < region.end else None


def _region(line: str) -> Region:
    span, flags, offset, _device, _inode, *path = line.split(maxsplit=5)
    start, end = (int(part, 16) for part in span.split("-"))
    bits = {"r": READ, "w": WRITE, "x": EXECUTE}
    protection = sum(bit for letter, bit in bits.items() if letter in flags)
    return Region(start, end, protection, int(offset, 16), path[0] if path else "")
