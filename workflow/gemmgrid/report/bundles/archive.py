"""Reading a bundle's zip file without believing what it says of itself.

Nothing is ever extracted: a file is read in pieces, and never more of it than was announced.
"""

from __future__ import annotations

import hashlib
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gemmgrid.records.names import name_problem
from gemmgrid.report.bundles import layout
from gemmgrid.report.bundles.contents import UnfitError, parse
from gemmgrid.report.bundles.layout import BundleError
from gemmgrid.report.read.fields import clean

PIECE = 1 << 20
UNREADABLE = (
    *(zipfile.BadZipFile, zlib.error, EOFError, OSError),
    *(NotImplementedError, RuntimeError, UnicodeDecodeError, OverflowError),
)
"""What zipfile raises for a damaged, encrypted or exotic file."""


class Archive:
    """An open bundle whose entries and manifest are in order; its files are checked as they are
    read."""

    def __init__(self, path: Path, opened: zipfile.ZipFile) -> None:
        self._path, self._zip = path, opened
        names = _check_entries(path, opened.infolist())
        content = b"".join(self._pieces(layout.MANIFEST, layout.MOST_MANIFEST_BYTES))
        self.manifest = _manifest(path, content)
        self.machine: str = self.manifest["machine"]
        self.files: dict[str, dict[str, Any]] = {
            file["path"]: file for file in self.manifest["files"]
        }
        self._compare(names)

    def lines(self, path: str) -> Iterator[tuple[int, bytes]]:
        """A file's lines that hold something, with their numbers from 1.

        BundleError, at the latest after the last one, where they are not what the manifest says.
        """
        number, rest = 0, b""
        for piece in self._checked(path):
            *whole, rest = (rest + piece).split(b"\n")
            for line in whole:
                number += 1
                if line.strip():
                    yield number, line
            if len(rest) > layout.MOST_LINE_BYTES:
                raise BundleError(f"{path}, line {number + 1} is too long: refused")
        if rest.strip():
            yield number + 1, rest

    def content(self, path: str) -> bytes:
        """All of a file; BundleError as from `lines`."""
        return b"".join(self._checked(path))

    def _checked(self, path: str) -> Iterator[bytes]:
        announced = self.files[path]
        size, found = 0, hashlib.sha256()
        for piece in self._pieces(path, min(max(announced["bytes"], 0), layout.MOST_FILE_BYTES)):
            size += len(piece)
            found.update(piece)
            yield piece
        if size != announced["bytes"]:
            raise BundleError(f"{path} is cut off: {size} of {announced['bytes']} bytes")
        if found.hexdigest() != announced["sha256"]:
            raise BundleError(f"{path} was changed or damaged: its checksum is another")

    def _pieces(self, name: str, most: int) -> Iterator[bytes]:
        size = 0
        with _readable(self._path):
            stream = self._zip.open(name)
        with stream:
            while True:
                with _readable(self._path):
                    piece = stream.read(PIECE)
                size += len(piece)
                if size > most:
                    raise BundleError(f"{clean(name)} is larger than {most} bytes: refused")
                if not piece:
                    return
                yield piece

    def _compare(self, present: set[str]) -> None:
        for path in sorted(present | self.files.keys()):
            if path == layout.MANIFEST:
                continue
            if problem := layout.path_problem(path, self.machine):
                raise BundleError(f"{clean(path)}: {clean(problem)}: refused")
            if path not in self.files:
                raise BundleError(f"{path} is not in the manifest: refused")
            if path not in present:
                raise BundleError(f"{path} is in the manifest and missing from the bundle")


@contextmanager
def opened(path: Path) -> Iterator[Archive]:
    """The bundle, open; BundleError says what is wrong with it."""
    if path.exists() and not path.is_file():
        raise BundleError(f"{path} is no file")
    try:
        with _readable(path):
            file = zipfile.ZipFile(path)
    except FileNotFoundError:
        raise BundleError(f"{path} is not there") from None
    with file:
        yield Archive(path, file)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except UNREADABLE as error:
        raise BundleError(f"{path} is no readable zip file: {error}") from None


def _check_entries(bundle: Path, entries: list[zipfile.ZipInfo]) -> set[str]:
    """The names of the entries; BundleError where they cannot be those of a bundle."""
    names = {entry.filename for entry in entries}
    if len(entries) > layout.MOST_FILES:
        raise BundleError(f"{bundle} holds {len(entries)} files, more than {layout.MOST_FILES}")
    if len({name.casefold() for name in names}) != len(entries):
        raise BundleError(f"{bundle} holds a file twice")
    if layout.MANIFEST not in names:
        raise BundleError(f"{bundle} has no {layout.MANIFEST}: it is not a gemmgrid bundle")
    for entry in entries:
        name, mode = clean(entry.filename), entry.external_attr >> 16
        if entry.is_dir() or (mode and stat.S_IFMT(mode) not in (0, stat.S_IFREG)):
            raise BundleError(f"{name} is no plain file: refused")
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise BundleError(f"{name} is compressed in another way: refused")
        if entry.file_size > layout.MOST_FILE_BYTES:
            raise BundleError(f"{name} would be {entry.file_size} bytes: refused")
        if layout.is_bloated(entry.file_size, entry.compress_size):
            raise BundleError(f"{name} would grow from {entry.compress_size} bytes: refused")
    # Also against the file's own size: entries may share the same compressed bytes.
    size, whole = sum(entry.file_size for entry in entries), bundle.stat().st_size
    if size > layout.MOST_BYTES or layout.is_bloated(size, whole):
        raise BundleError(f"{bundle} would unpack to {size} bytes: refused")
    return names


def _manifest(bundle: Path, content: bytes) -> dict[str, Any]:
    where = f"{bundle}: {layout.MANIFEST}"
    try:
        document = parse(content)
    except UnfitError as error:
        raise BundleError(f"{where} {error}") from None
    if not isinstance(document, dict) or document.get("kind") != layout.KIND:
        raise BundleError(f"{where} is not that of a gemmgrid bundle")
    version = document.get("schema")
    if type(version) is not int or not 1 <= version <= layout.SCHEMA:
        raise BundleError(
            f"{bundle} has bundle schema {version!r}; this gemmgrid reads up to {layout.SCHEMA}: "
            "update"
        )
    if problem := name_problem(document.get("machine")):
        raise BundleError(f"{where}: machine: {problem}")
    files = document.get("files")
    wanted = {"path": str, "bytes": int, "sha256": str}
    if not isinstance(files, list) or not all(
        isinstance(file, dict)
        and all(isinstance(file.get(key), kind) for key, kind in wanted.items())
        for file in files
    ):
        raise BundleError(f"{where} has no usable list of files")
    return document
