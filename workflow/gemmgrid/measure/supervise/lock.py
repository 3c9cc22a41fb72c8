"""Two measurements never overlap on one machine: the last guard, whatever started them."""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import gettempdir


def lock_path() -> Path:
    """One file for all users and checkouts of this machine."""
    shared = Path("/tmp")
    return (shared if shared.is_dir() else Path(gettempdir())) / "gemmgrid-measuring.lock"


@contextmanager
def measuring(look: Callable[[], None], path: Path | None = None) -> Iterator[None]:
    """Hold the machine's measuring lock; wait while another measurement runs, and say so once.

    The lock goes with its process however that ends, so a killed measurement holds up nobody.
    """
    path = path or lock_path()
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDONLY, 0o644))
    # Read-only: another user's file in a sticky folder cannot be opened for writing.
    descriptor = os.open(path, os.O_RDONLY)
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
