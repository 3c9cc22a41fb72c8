"""Asking SLURM: one command, a time limit, and an answer that never raises."""

from __future__ import annotations

import os
import shlex
import subprocess
from dataclasses import dataclass

LIMIT_S = 10.0
"""A controller that is down makes the commands retry for minutes; nobody shall wait for that."""


@dataclass(frozen=True)
class Answer:
    """What a command said, or why it said nothing: exactly one of both is None."""

    text: str | None
    reason: str | None = None


def ask(command: str, *arguments: str, limit_s: float = LIMIT_S) -> Answer:
    """Run `command` with `arguments` for at most `limit_s` seconds and return its standard output.

    With LC_ALL=C, so that messages are English. Never raises: not installed, too slow, and an exit
    code other than 0 (with the last line of standard error) are reasons.
    """
    shown = shlex.join([command, *arguments])
    try:
        done = subprocess.run(
            [command, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=limit_s,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
    except FileNotFoundError:
        return Answer(None, f"{command!r} is not installed here (not found in PATH)")
    except subprocess.TimeoutExpired:
        return Answer(None, f"'{shown}' did not answer within {limit_s:g} s")
    except (OSError, ValueError) as error:
        return Answer(None, f"'{shown}' cannot be run: {error}")
    if done.returncode != 0:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        said = lines[-1] if lines else "it said nothing on standard error"
        return Answer(None, f"'{shown}' ended with exit code {done.returncode}: {said}")
    return Answer(done.stdout)
