"""The `Key=value Key=value …` lines of `scontrol -o show`, read by the keys that are wanted.

Asking for a key by name, instead of cutting a line at every `=`, copes with values that hold spaces
(`OS=Linux 5.14 #1 SMP …`, `Reason=Kill task failed [root@…]`), with keys of later versions, and
is fast on ten thousand nodes. The first occurrence counts: the texts that people write (Reason,
Comment, Extra) stand at the end.
"""

from __future__ import annotations

from collections.abc import Iterator

_NOTHING = ("", "(null)", "N/A", "n/a", "None", "NONE")


def records(text: str, first: str) -> Iterator[str]:
    """The lines of an answer that start with the key `first`, each with a space on both ends."""
    for line in text.splitlines():
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
