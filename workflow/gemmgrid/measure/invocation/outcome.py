"""How a measured process ends early: with a status and a reason, or with its supervisor."""

from __future__ import annotations

import ctypes
import signal
import sys
import time
from dataclasses import dataclass

PR_SET_PDEATHSIG = 1
NO_TIME = "no time left in the budget"


class Ended(Exception):  # noqa: N818
    """The invocation ends here with this status, which is not always an error."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


def die_with_parent() -> None:
    """Ask Linux to end this process with its supervisor, so that no measurement runs unwatched."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


@dataclass(frozen=True)
class Budget:
    """The time of a process, in seconds from `began` of `time.perf_counter`."""

    began: float
    share_s: float
    """Its part of what is left for the cell's processes."""
    left_s: float
    """All that is left of the cell's budget."""

    def expires(self, seconds: float) -> bool:
        """Whether that many more seconds would leave its share: nothing more is begun."""
        return time.perf_counter() - self.began + seconds > self.share_s

    def ends(self, seconds: float) -> bool:
        """Whether they would leave the cell's budget: what is begun goes without them."""
        return time.perf_counter() - self.began + seconds > self.left_s
