"""Run one command in a process group of its own, watching its time and its memory."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

TAIL_BYTES = 4000
"""What is kept of a process's output: the end."""
LARGEST_OUTPUT = 8 << 20
"""Output beyond this is cut off while the process runs, so that it cannot fill the disk."""
FIRST_LOOK, LAST_LOOK = 0.02, 0.25
"""Seconds between looks at a running process: often at first, then seldom enough not to disturb."""


@dataclass
class Outcome:
    """How a process ended."""

    exit_code: int | None
    signal: str | None
    timed_out: bool
    over_memory: bool
    seconds: float
    stdout_tail: str
    stderr_tail: str

    @property
    def clean(self) -> bool:
        return self.exit_code == 0


def run(
    command: Sequence[str],
    env: Mapping[str, str],
    folder: Path,
    deadline_s: float,
    memory_bytes: int | None,
    look: Callable[[], None],
) -> Outcome:
    """Run `command` in `folder` until it ends, its time is up or it outgrows its memory.

    look   called now and then while it runs; an exception from it ends the process and goes on up

    Raises OSError when the command cannot be started.
    """
    start = time.monotonic()
    timed_out = over_memory = False
    with (folder / "stdout").open("a+b") as out, (folder / "stderr").open("a+b") as err:
        process = subprocess.Popen(
            command,
            env=dict(env),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        try:
            with _Waiter(process) as waiter:
                interval = FIRST_LOOK
                while not waiter.wait(
                    min(interval, max(0.0, start + deadline_s - time.monotonic()))
                ):
                    interval = min(interval * 1.3, LAST_LOOK)
                    if time.monotonic() - start >= deadline_s:
                        timed_out = True
                        break
                    resident = resident_bytes(process.pid)
                    if memory_bytes and resident and resident > memory_bytes:
                        over_memory = True
                        break
                    _limit(out)
                    _limit(err)
                    look()
        finally:
            end_group(process)
        code = process.returncode
        return Outcome(
            exit_code=code if code >= 0 else None,
            signal=_signal_name(-code) if code < 0 else None,
            timed_out=timed_out,
            over_memory=over_memory,
            seconds=time.monotonic() - start,
            stdout_tail=_tail(out),
            stderr_tail=_tail(err),
        )


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and whatever it started in its group; wait for it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def resident_bytes(pid: int) -> int | None:
    """Memory of a process that is in RAM, or None where it cannot be told cheaply."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        pass
    if sys.platform != "darwin":
        return None
    done = subprocess.run(
        ["/bin/ps", "-o", "rss=", "-p", str(pid)], capture_output=True, check=False
    )
    return int(done.stdout) * 1024 if done.stdout.strip() else None


class _Waiter:
    """Waits for a process without polling where the system has process descriptors."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        try:
            self.descriptor: int | None = os.pidfd_open(process.pid)
        except (AttributeError, OSError):
            self.descriptor = None

    def __enter__(self) -> _Waiter:
        return self

    def __exit__(self, *_: object) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)

    def wait(self, seconds: float) -> bool:
        """True as soon as the process has ended, False after that many seconds."""
        if self.descriptor is not None:
            select.select([self.descriptor], [], [], seconds)
            return self.process.poll() is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        return self.process.poll() is not None


def _limit(stream: IO[bytes]) -> None:
    if os.fstat(stream.fileno()).st_size > LARGEST_OUTPUT:
        os.ftruncate(stream.fileno(), 0)


def _tail(stream: IO[bytes]) -> str:
    stream.seek(0, os.SEEK_END)
    stream.seek(max(0, stream.tell() - TAIL_BYTES))
    return stream.read().decode(errors="replace").strip()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
