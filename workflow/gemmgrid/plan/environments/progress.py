"""One line that says how a build goes: rewritten on a terminal, repeated seldom elsewhere."""

from __future__ import annotations

import time
from typing import TextIO

EVERY_S = 15.0


class Progress:
    """Writes `environment torch-cpu: building … 12 s`."""

    def __init__(self, name: str, out: TextIO) -> None:
        self.name = name
        self.out = out
        self.started = time.monotonic()
        self.shown_at = -EVERY_S
        self.terminal = out.isatty()

    def show(self, what: str) -> None:
        """Say what goes on, on a terminal each time, elsewhere every fifteen seconds."""
        seconds = time.monotonic() - self.started
        if self.terminal:
            self._write(f"\r\033[K{self._line(what)} {seconds:.0f} s")
        elif seconds - self.shown_at >= EVERY_S:
            self.shown_at = seconds
            self._write(f"{self._line(what)} {seconds:.0f} s\n")

    def end(self, what: str) -> None:
        """Say how it ended."""
        self._write(f"{chr(13) + chr(27) + '[K' if self.terminal else ''}{self._line(what)}\n")

    def _line(self, what: str) -> str:
        return f"environment {self.name}: {what}"

    def _write(self, text: str) -> None:
        try:
            self.out.write(text)
            self.out.flush()
        except OSError:
            pass  # a closed terminal must not end a build
