"""How a measurement ends early: with a status and a reason, not always as an error."""

from __future__ import annotations


class Ended(Exception):  # noqa: N818
    """The invocation ends here with this status."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason
