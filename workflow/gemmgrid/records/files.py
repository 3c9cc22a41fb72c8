"""Files that others may have put there, read with care; and files written whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

PASSING = frozenset({errno.ESTALE, errno.EIO, errno.ETIMEDOUT})
"""Errors of a network file system that are often gone at the next try."""
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class NotAFileError(OSError):
    """What lies there is no regular file; the text says what it is."""

    def __str__(self) -> str:
        return str(self.strerror)


@contextmanager
def open_regular(path: Path) -> Iterator[BinaryIO]:
    """The file, opened to be read; OSError where it cannot be, or is anything but a regular file.

    It is asked what it is before it is touched: a pipe would be waited for, a device may act.
    """
    _insist(path, path.stat().st_mode)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        _insist(path, os.fstat(descriptor).st_mode)
        yield file


def read_regular(path: Path) -> bytes:
    """All bytes of a regular file; OSError as from `open_regular`."""
    with open_regular(path) as file:
        return file.read()


def reason(path: Path, error: OSError) -> str:
    """Why a file cannot be read, as a message says it."""
    if isinstance(error, FileNotFoundError) and path.is_symlink():
        return "cannot be read: a link to nothing"
    return f"cannot be read: {error.strerror or error}"


def _insist(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        raise NotAFileError(errno.EINVAL, f"{kind}, no file", str(path))


def write_atomically(path: Path, content: bytes) -> None:
    """Replace the file's content in one step, synced to the disk before it becomes visible.

    A new file gets the permissions that the umask leaves, as any other program's would.
    """
    with _beside(path, content) as beside:
        beside.replace(path)


def create_atomically(path: Path, content: bytes) -> bool:
    """The same for a file that must not be there yet; False, with nothing done, where it is."""
    with _beside(path, content) as beside:
        try:
            path.hardlink_to(beside)
        except FileExistsError:
            return False
        except OSError:  # a file system without hard links
            if path.exists():
                return False
            beside.replace(path)
        return True


@contextmanager
def _beside(path: Path, content: bytes) -> Iterator[Path]:
    """The content in a finished file of another name in the same folder, gone afterwards."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name[:200]}.{os.urandom(8).hex()}.new")
    try:
        # Not tempfile, whose files nobody but their owner may read.
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        yield beside
    finally:
        # The content may be in its place by now: what is left over is no reason to fail.
        with suppress(OSError):
            beside.unlink(missing_ok=True)
