"""Run one command in a process group of its own, watching its time and its memory."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from gemmgrid.records.text import shorten

TAIL_BYTES = 4000
"""What is kept of a process's output: the end."""
LARGEST_OUTPUT = 8 << 20
"""Output beyond this is cut off while the process runs, so that it cannot fill the disk."""
FIRST_LOOK, LAST_LOOK = 0.02, 0.25
"""Seconds between looks at a running process: often at first, then seldom enough not to disturb."""
_REFUSED = re.compile("resource temporarily unavailable|can't start new thread", re.I)
"""What libraries say where the system gives them no further process or thread."""


@dataclass
class Outcome:
    """How a process ended."""

    exit_code: int | None = None
    signal: str | None = None
    timed_out: bool = False
    over_memory: bool = False
    seconds: float = 0.0
    stdout_tail: str = ""
    stderr_tail: str = ""
    refused: str = ""
    """What the system refused while it hung."""

    @property
    def clean(self) -> bool:
        return self.exit_code == 0

    def failure(self, stage: str) -> dict[str, Any]:
        """The `failure` part of a run."""
        kept = {"exit_code": self.exit_code, "signal": self.signal}
        tails = {"stderr_tail": self.stderr_tail, "stdout_tail": self.stdout_tail}
        return {"stage": stage, **kept, **tails}

    @property
    def warnings(self) -> list[str]:
        """The lines of stderr, shortened, each once."""
        lines = (shorten(line.strip(), 200) for line in self.stderr_tail.splitlines())
        return list(dict.fromkeys(filter(None, lines)))

    def last_words(self, otherwise: str = "") -> str:
        """`: ` and what was refused, or else the last line of stderr and that of stdout."""
        said = []
        for tail in (self.stderr_tail, self.stdout_tail):
            lines = tail.splitlines()
            told = [line for line in lines if _REFUSED.search(line)][:1] or lines[-1:]
            said += [shorten(line.strip(), 300) for line in told]
        words = self.refused or "; ".join(said) or otherwise
        return f": {words}" if words else ""

    def died(self, stage: str, oom_killed: bool, memory: int | None) -> tuple[str, str]:
        """Status and reason of a process that ended without a document.

        oom_killed   whether the kernel killed for memory meanwhile; `memory` is what it might take
        """
        if self.timed_out:
            told = f"no answer after {self.seconds:.0f} s (stage: {stage})"
            return "timeout", f"{told}{self.last_words()}"
        if self.over_memory:
            allowed = f"{(memory or 0) / 1e9:.1f} GB (budget.memory_fraction; stage: {stage})"
            return "oom", f"outgrew {allowed}"
        if self.signal == "SIGKILL" and oom_killed:
            return "oom", f"killed by the kernel for memory (stage: {stage})"
        if self.signal:
            return "crashed", f"ended by {self.signal} (stage: {stage}){self.last_words()}"
        status = "env-failed" if stage == "start" else "crashed"
        words = self.last_words("no message")
        return status, f"exit code {self.exit_code} (stage: {stage}){words}"


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
    timed_out, over_memory, refused = False, False, ""
    with (folder / "stdout").open("a+b") as out, (folder / "stderr").open("a+b") as err:
        try:
            process = subprocess.Popen(
                command,
                env=dict(env),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        except BlockingIOError as error:
            raise _none_left() from error
        try:
            ended = _end_of(process)
            interval = FIRST_LOOK
            while not ended.wait(min(interval, max(0.0, start + deadline_s - time.monotonic()))):
                interval = min(interval * 1.3, LAST_LOOK)
                if time.monotonic() - start >= deadline_s:
                    timed_out, refused = True, _refusal()
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
            refused=refused,
        )


def _none_left() -> OSError:
    soft = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    limit = "the control group's pids.max" if soft == resource.RLIM_INFINITY else f"{soft}"
    return OSError(
        errno.EAGAIN, f"the system refused a further process or thread (ulimit -u: {limit})"
    )


def _refusal() -> str:
    """What the system refuses this user now: a process that needs it waits for ever, in silence."""
    try:
        _start(lambda: None)
    except OSError as error:
        return str(error.strerror)
    return ""


def _start(work: Callable[[], object]) -> None:
    """Do it in a thread; OSError where there is none to be had."""
    try:
        threading.Thread(target=work, daemon=True).start()
    except RuntimeError as error:
        raise _none_left() from error


def _end_of(process: subprocess.Popen[bytes]) -> threading.Event:
    """An event that is set when the process ends. A thread sleeps in the system until then: waiting
    with a timeout would wake up twenty times a second beside the samples."""
    ended = threading.Event()

    def wait() -> None:
        process.wait()
        ended.set()

    _start(wait)
    return ended


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and whatever it started in its group; wait for it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def resident_bytes(pid: int) -> int | None:
    """Memory of a process that is in RAM, or None where it cannot be told. Starts no process."""
    if sys.platform == "linux":  # a file, for psutil takes 36 ms to import
        try:
            pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
            return int(pages) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError, ValueError):
            return None
    import psutil

    with contextlib.suppress(psutil.Error):
        return int(psutil.Process(pid).memory_info().rss)
    return None


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
