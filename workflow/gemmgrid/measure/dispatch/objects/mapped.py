"""The objects of this process from its memory map alone, where the loader cannot be asked.

Asking it needs a callback, and a callback needs executable memory, which hardened systems refuse.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

from gemmgrid.measure.dispatch.objects.elf import (
    PF_X,
    PT_LOAD,
    LoadedObject,
    ProgramHeader,
    loaded_objects,
)
from gemmgrid.measure.dispatch.objects.support import ExecutableMemoryError


def mapped_objects() -> list[LoadedObject]:
    """The same from the memory map alone, good for naming addresses: without dynamic sections."""
    files: dict[str, list[tuple[int, int, int, bool]]] = {}
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, flags, offset, _device, _inode, *path = line.split(maxsplit=5)
        if path and path[0].startswith("/"):
            start, end = (int(part, 16) for part in span.split("-"))
            files.setdefault(path[0], []).append((start, end, int(offset, 16), "x" in flags))
    found = []
    for file, spans in files.items():
        base = _base(file, {offset: start for start, _, offset, code in spans if code})
        if base is not None:
            found.append(LoadedObject(file, base, 0, tuple((a, z, x) for a, z, _, x in spans)))
    return found


def _base(path: str, starts: dict[int, int]) -> int | None:
    """Where a file's address 0 lies, from the start of its code by offset in the file."""
    try:
        with Path(path).open("rb") as file:
            head = file.read(64)
            if head[:5] != b"\x7fELF\x02":
                return None
            (offset,) = struct.unpack_from("<Q", head, 32)
            size, count = struct.unpack_from("<HH", head, 54)
            file.seek(offset)
            table = file.read(size * count)
    except (OSError, struct.error):
        return None
    page = mmap.PAGESIZE
    for header in (ProgramHeader.from_buffer_copy(table, size * i) for i in range(count)):
        start = starts.get(header.offset // page * page)
        if header.type == PT_LOAD and header.flags & PF_X and start is not None:
            return int(start - header.vaddr // page * page)
    return None


def named_objects() -> list[LoadedObject]:
    """Loaded objects as well as this system lets us find them."""
    try:
        return loaded_objects()
    except ExecutableMemoryError:
        return mapped_objects()
