"""What ran, as the page says it: in which library, how surely, with what beside it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from gemmgrid.report.lesson.check import expected
from gemmgrid.report.read.evidence import SEEN, Finding
from gemmgrid.report.read.hardware import bytes_text
from gemmgrid.report.read.rows import Row

MOST_REASONS = 3


def routine(row: Row) -> dict[str, Any]:
    """What ran: seen, with its mark; or what the lesson's table expects, marked as expected."""
    seen, mark = row["routine_seen"], row["routine_evidence"]
    taken = row.evidence.status is not None
    if seen:
        return {"routine": seen, "mark": mark, "expected": mark not in SEEN, "taken": taken}
    named = expected(row["adapter"], row["device"], row["routine"], row["dtype"])
    return {"routine": named, "mark": None, "expected": named is not None, "taken": taken}


def ran_in(row: Row) -> list[str]:
    """The files or libraries in which the routine, or else the kernel, was seen to run."""
    evidence = row.evidence
    for findings in (evidence.routines, evidence.kernels):
        seen = [_base(one.library) for one in findings if one.mark in SEEN and one.library]
        if seen:
            return list(dict.fromkeys(seen))
    return []


def library(row: Row) -> str | None:
    """The loaded BLAS by name, version and file, if it ran or nothing tells; else what ran.

    A BLAS library that was loaded but did not do the work is named as just that.
    """
    loaded = " ".join(filter(None, (row["library"], row["library_version"]))) or None
    file = _base(row["library_file"] or "")
    places = ran_in(row)
    if not places:
        return f"{loaded} (loaded)" if loaded else None
    if loaded and file in places and not row.evidence.no_blas:
        return f"{loaded} in {file}"
    told = " and ".join(places)
    return f"{told}; {loaded} was loaded, and not seen to run" if loaded else told


def samples(rows: Iterable[Row]) -> str | None:
    """How much of the time the first kernel of these cells took, where it was sampled."""
    found = [
        kernel
        for row in rows
        for kernel in row.evidence.kernels[:1]
        if kernel.mark == "sampled" and kernel.share is not None
    ]
    if not found:
        return None
    shares = _range([round(100 * (kernel.share or 0)) for kernel in found])
    counts = [kernel.samples for kernel in found if kernel.samples is not None]
    return f"{shares} % of {_range(counts)} samples" if counts else f"{shares} % of the time"


def hidden(rows: Sequence[Row]) -> list[str]:
    """What the expression does not show, a sentence each, with the counts and bytes seen."""
    seen: dict[str, list[tuple[int | None, int | None]]] = {}
    for row in rows:
        for work in row.evidence.hidden:
            text = f"{work.what}: {work.explanation}" if work.explanation else work.what
            seen.setdefault(text, []).append((work.count, work.bytes))
    return [text + _amount(amounts) for text, amounts in seen.items()]


def doubts(rows: Iterable[Row]) -> list[str]:
    """Why something is unknown or incomplete: reasons that differ in numbers only are told once."""
    told: dict[str, str] = {}
    for row in rows:
        for text in _doubts(row):
            told.setdefault(re.sub(r"\d+(\.\d+)?", "#", text), text)
    texts = list(told.values())
    left = len(texts) - MOST_REASONS
    return [*texts[:MOST_REASONS], *([f"and {left} more"] if left > 0 else [])]


def _doubts(row: Row) -> Iterable[str]:
    evidence = row.evidence
    if evidence.reason:
        yield evidence.reason
    for kind, findings in (("routine", evidence.routines), ("kernel", evidence.kernels)):
        for one in findings:
            if one.mark == "unknown" and one.reason:
                yield f"{kind}: {one.reason}"
    for what, why in evidence.problems.items():
        # The reason of an unknown routine or kernel often is that very problem.
        if not any(why in (one.reason or "") for one in _all(row)):
            yield f"{_base(what)}: {why}"


def _all(row: Row) -> list[Finding]:
    return [*row.evidence.routines, *row.evidence.kernels]


def _amount(amounts: Sequence[tuple[int | None, int | None]]) -> str:
    """ " (2 times, 2 MiB)", with both ends where the cells differ."""
    counts = sorted({count for count, _ in amounts if count is not None})
    sizes = sorted({size for _, size in amounts if size is not None})
    parts = []
    if counts:
        parts.append("once" if counts == [1] else f"{_range(counts)} times")
    if sizes:
        parts.append(" to ".join(dict.fromkeys(bytes_text(size) for size in (sizes[0], sizes[-1]))))
    return f" ({', '.join(parts)})" if parts else ""


def _range(values: Sequence[int]) -> str:
    least, most = min(values), max(values)
    return str(least) if least == most else f"{least}–{most}"


def _base(path: str) -> str:
    return re.split(r"[/\\]", path.rstrip("/\\"))[-1]
