"""Asking SLURM: one command, a time limit, and an answer that never raises.

Records are the `Key=value …` lines of `scontrol -o show`, read by the keys that are wanted.
Asking for a key by name, instead of cutting a line at every `=`, copes with values that hold spaces
(`OS=Linux 5.14 #1 SMP …`, `Reason=Kill task failed [root@…]`), with keys of later versions, and
is fast on ten thousand nodes. The first occurrence counts: the texts that people write (Reason,
Comment, Extra) stand at the end.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass

LIMIT_S = 10.0
"""A controller that is down makes the commands retry for minutes; nobody shall wait for that."""
_NOTHING = ("", "(null)", "N/A", "n/a", "None", "NONE")


@dataclass(frozen=True)
class Answer:
    """What a command said, or why it said nothing: exactly one of both is None.

    said   all of its standard error where it ended with an exit code other than 0
    """

    text: str | None
    reason: str | None = None
    said: str | None = None


Asking = Callable[..., Answer]


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
        text = f"'{shown}' ended with exit code {done.returncode}: {said}"
        return Answer(None, text, done.stderr)
    return Answer(done.stdout)


def records(text: str | None, first: str) -> Iterator[str]:
    """The lines of an answer that start with the key `first`, each with a space on both ends."""
    for line in (text or "").splitlines():
        if line.startswith(f"{first}="):
            yield f" {line} "


def value(line: str, key: str) -> str | None:
    """The word behind `key=`; None where the key is missing or SLURM says that it is nothing."""
    start = line.find(f" {key}=")
    if start < 0:
        return None
    start += len(key) + 2
    word = line[start : line.find(" ", start)]
    return None if word in _NOTHING else word


def number(line: str, key: str) -> int | None:
    """A whole number behind `key=`; None where there is none (UNLIMITED, N/A, (null), missing)."""
    word = value(line, key)
    return int(word) if word is not None and word.isdecimal() else None


def words(line: str, key: str) -> tuple[str, ...]:
    """A list behind `key=`, separated by commas."""
    word = value(line, key)
    return tuple(part for part in word.split(",") if part) if word else ()


def minutes(text: str | None) -> int | None:
    """A SLURM time as whole minutes, seconds rounded up; None for UNLIMITED and what is no time.

    Forms: minutes, minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:seconds]].
    """
    days, dash, clock = (text or "").rpartition("-")
    parts = clock.split(":")
    if not all(part.isdecimal() for part in parts) or (dash and not days.isdecimal()):
        return None
    if dash:
        hours, mins, secs = [*map(int, parts), 0, 0][:3]
    elif len(parts) == 3:
        hours, mins, secs = map(int, parts)
    else:
        hours, (mins, secs) = 0, [*map(int, parts), 0][:2]
    return (int(days or 0) * 24 + hours) * 60 + mins + (secs > 0)
