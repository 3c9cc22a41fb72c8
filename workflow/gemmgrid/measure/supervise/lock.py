"""Two measurements never overlap on one machine: the last guard, whatever started them."""

from __future__ import annotations

import fcntl
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import gettempdir

NAME = "gemmgrid-measuring.lock"
SHARED = Path("/tmp")


class LockError(Exception):
    """The machine's lock cannot be had; the text says which file is in the way, and the cure."""


@contextmanager
def measuring(look: Callable[[], None], path: Path | None = None) -> Iterator[None]:
    """Hold the machine's measuring lock; wait while another measurement runs, and say so once.

    The lock goes with its process however that ends, so a killed measurement holds up nobody.
    Raises LockError where no such file can be made or opened.
    """
    place = path or _place()
    try:
        descriptor = _open(place)
    except OSError as error:
        raise LockError(
            f"{place}, the lock that keeps measurements apart, cannot be had: {error.strerror}; "
            "remove what is in the way, or set TMPDIR to a folder that you may write to"
        ) from error
    try:
        waited = False
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not waited:
                    print("waiting: another measurement runs on this machine", file=sys.stderr)
                waited = True
                look()
                time.sleep(0.2)
        yield
    finally:
        os.close(descriptor)


def _place() -> Path:
    """One file for all users and checkouts of this machine, in /tmp.

    Where nothing can be made there, one in the user's own temporary folder, which guards against
    that user only.
    """
    shared = SHARED / NAME
    if os.path.lexists(shared) or os.access(SHARED, os.W_OK | os.X_OK):
        return shared
    return Path(gettempdir()) / NAME


def _open(path: Path) -> int:
    """The file open for reading, made if it is not there. OSError for what is no plain file."""
    with suppress(FileExistsError):
        made = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDONLY, 0o644)
        try:
            os.fchmod(made, 0o644)  # whatever the umask: other users must be able to open it
        finally:
            os.close(made)
    # Read-only: another user's file in a sticky folder cannot be opened for writing. Anybody may
    # put anything under this name: no link is followed, no pipe waited for.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(0, "it is no plain file")
    return descriptor
