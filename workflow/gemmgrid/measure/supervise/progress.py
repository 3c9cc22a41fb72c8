"""What the terminal says while a grid runs: which cell, how many of how many, time left."""

from __future__ import annotations

import errno
import fcntl
import json
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from statistics import mean
from typing import Any

from gemmgrid.measure.supervise.assemble import DOUBTS, rate_of, seconds_per_call
from gemmgrid.records.files import write_atomically
from gemmgrid.records.statistics import relative_half_width
from gemmgrid.records.text import spell_seconds

NO_LOCKS = frozenset({errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP})
"""What a file system without flock answers."""


@contextmanager
def passing_over(what: str) -> Iterator[None]:
    """For what comes after a run is safe: an error is told, and costs nobody the run.

    Any error: where the job failed now, Snakemake would put the history back as it was before.
    """
    try:
        yield
    except Exception as error:
        with suppress(OSError, ValueError):
            why = getattr(error, "strerror", None) or error
            print(f"gemmgrid: {what}: {why}; passed over", file=sys.stderr, flush=True)


class Progress:
    """Counts the turns of cells of one workflow run in a small file that the workflow starts anew.

    The file holds {"total": turns or None, "seconds": [of each so far]}.
    """

    def __init__(self, path: Path, log: Path | None = None) -> None:
        self.path, self.log = path, log
        try:
            self.state = json.loads(path.read_text(encoding="utf-8"))
            self.seconds: list[float] = list(self.state["seconds"])
            self.total: int | None = self.state["total"]
        except (OSError, ValueError, KeyError, TypeError):
            self.seconds, self.total = [], None
        self.start = time.monotonic()

    @property
    def counter(self) -> str:
        """`[ 3/24]`, or nothing when the number of jobs is not known."""
        if not self.total:
            return ""
        width = len(str(self.total))
        return f"[{len(self.seconds) + 1:>{width}}/{self.total}] "

    def say(self, text: str) -> None:
        """One line on the terminal."""
        line = f"{self.counter}{text}"
        print(line, file=sys.stderr, flush=True)
        if self.log:
            self.log.parent.mkdir(parents=True, exist_ok=True)
            with self.log.open("a", encoding="utf-8") as log:
                log.write(f"{line}\n")

    def done(self, text: str = "") -> None:
        """Count a turn of a cell, and say `text`, if there is any, with the time left."""
        spent = time.monotonic() - self.start
        left = ""
        if self.total:
            remaining = self.total - len(self.seconds) - 1
            if remaining > 0:
                left = f"  ~{spell_seconds(remaining * mean([*self.seconds, spent]))} left"
        if text:
            self.say(text + left)
        self._count(spent)

    def tick(self, text: str) -> None:
        """The line of a cell that was measured elsewhere; counts it. Several may do so at once.

        Counts without a lock where there is none to be had, and never raises an OSError.
        """
        with self._alone():
            now = Progress(self.path, self.log)
            with passing_over(f"{self.log} cannot be written"):
                now.say(text)
            with passing_over(f"{self.path} does not count this cell"):
                now._count(0.0)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the counter's lock, where its file system has locks."""
        with ExitStack() as stack:
            with passing_over(f"{self.path} is counted without its lock"):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                held = stack.enter_context(self.path.with_suffix(".lock").open("wb"))
                try:
                    fcntl.flock(held, fcntl.LOCK_EX)
                except OSError as error:
                    if error.errno not in NO_LOCKS:
                        raise
            yield

    def _count(self, seconds: float) -> None:
        self.seconds.append(seconds)
        document = {"total": self.total, "seconds": self.seconds}
        write_atomically(self.path, json.dumps(document).encode())


def outcome_line(run: dict[str, Any]) -> str:
    """One cell's result in one line: the rate and its interval, or the status and its reason."""
    name = f"{run['backend']:<16} {run['cell']['name']:<34}"
    if run["status"] != "ok":
        return f"{name} {run['status']}: {run['reason']}"
    width = relative_half_width(seconds_per_call(run))
    interval = f" ±{width:.1%}" if width is not None else ""
    rounds = {one["round"] for one in run["invocations"]}
    passing = DOUBTS if len(rounds) < run["settings"].get("rounds", 1) else {"one-round"}
    doubts = [flag for flag in run["flags"] if flag not in passing]
    flags = f"  ({', '.join(doubts)})" if doubts else ""
    return f"{name} {rate_of(run) / 1e9:9.2f} GFLOP/s{interval}{flags}"
