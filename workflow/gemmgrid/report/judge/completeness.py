"""Whether the study is complete, as the exit status of the whole workflow says it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from gemmgrid.records.files import write_atomically
from gemmgrid.records.text import count, shorten
from gemmgrid.report.read.collect import Collection
from gemmgrid.report.read.coverage import Coverage, coverage
from gemmgrid.report.read.plan_file import PLAN_FILE


def gate(collection: Collection, marker: Path) -> int:
    """0, with `marker` written, when every planned cell is settled; else 1 and a line a status."""
    marker.unlink(missing_ok=True)
    if collection.plan is None:
        print(
            f"{collection.results / PLAN_FILE}: no plan, so nothing can be complete",
            file=sys.stderr,
        )
        return 1
    for line, problem in collection.plan.problems:
        where = PLAN_FILE.name if line is None else f"{PLAN_FILE.name}, line {line}"
        print(f"{where}: {problem}", file=sys.stderr)
    found = coverage(collection)
    for told in incomplete_lines(found):
        print(told, file=sys.stderr)
    if found.incomplete or collection.plan.problems:
        return 1
    document = {
        "schema": 1,
        "kind": "complete",
        "study": collection.plan.study,
        "machine": collection.plan.machine,
        "cells": dict(sorted(found.counts.items())),
    }
    write_atomically(marker, (json.dumps(document) + "\n").encode())
    return 0


def incomplete_lines(found: Coverage, width: int = 100) -> list[str]:
    """One line a status that is not settled: how many cells, and the first of them."""
    by_status: dict[str, list[str]] = {}
    for row in found.incomplete:
        name = f"{found.place(row)}/{row['cell']}"
        by_status.setdefault(row["status"], []).append(name)
    lines = []
    for status, names in sorted(by_status.items()):
        rest = f" and {len(names) - 1} more" if len(names) > 1 else ""
        start = f"incomplete: {count('cell', len(names))} {status}: "
        room = max(20, width - len(start) - len(rest))
        lines.append(start + shorten(names[0], room, keep_end=True) + rest)
    return lines
