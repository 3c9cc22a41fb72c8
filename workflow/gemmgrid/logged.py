"""A command's standard error kept in a file as well.

In the same process, so that signals, exit code and the order of what is printed are its own.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DRAIN_S = 2.0
"""How long the end waits for what a process that outlives the command still holds open."""


@contextmanager
def keeping_stderr(log: Path) -> Iterator[None]:
    """Copy what this process and its children write to standard error to `log`, from its start.

    Where the file cannot be written, that is said, and nothing is kept.
    """
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    except OSError as error:
        print(f"gemmgrid: {log} cannot be written: {error.strerror}; passed over", file=sys.stderr)
        yield
        return
    own = os.dup(2)
    readable, writable = os.pipe()
    os.dup2(writable, 2)
    os.close(writable)

    def copy() -> None:
        while data := os.read(readable, 1 << 16):
            for target in (own, file):
                try:
                    os.write(target, data)
                except OSError:  # a closed terminal or a full disk must not end the command
                    continue

    copier = threading.Thread(target=copy, daemon=True)
    copier.start()
    try:
        yield
    except Exception:
        sys.excepthook(*sys.exc_info())
        raise SystemExit(1) from None
    finally:
        sys.stderr.flush()
        os.dup2(own, 2)
        copier.join(DRAIN_S)
