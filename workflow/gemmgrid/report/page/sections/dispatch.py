"""Expression → routine → kernel, each with how it is known."""

from __future__ import annotations

from typing import Any

from gemmgrid.report.page import evidence_text
from gemmgrid.report.page.evidence_text import routine
from gemmgrid.report.page.view import View
from gemmgrid.report.read.evidence import MARKS
from gemmgrid.report.read.rows import Row, reading_order

TITLE = "What really ran"


def build(view: View) -> dict[str, Any]:
    """One entry for all cells, on all machines, of a backend and dtype that ran the same way."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in sorted(view.cells, key=reading_order):
        if not row["expression"] and row.evidence.status is None:
            continue
        facts = routine(row)
        hidden = tuple((work.what, work.explanation) for work in row.evidence.hidden)
        key = (
            *(row[column] for column in ("backend", "routine", "dtype", "expression")),
            evidence_text.library(row),
            facts["routine"],
            facts["mark"],
            row["kernel_seen"],
            row["kernel_evidence"],
            hidden,
            row.evidence.inconsistent,
        )
        groups.setdefault(key, []).append(row)
    by_product = sorted(groups.values(), key=lambda rows: rows[0]["routine"] != "gemm")
    entries = [_entry(rows) for rows in by_product]
    taken = sum(row.evidence.status is not None for row in view.cells)
    return {"entries": entries, "marks": MARKS, "taken": taken}


def _entry(rows: list[Row]) -> dict[str, Any]:
    row = rows[0]
    return {
        "row": row,
        "machines": sorted({other["machine"] for other in rows}),
        "count": len(rows),
        "cells": list(dict.fromkeys(other["cell"] for other in rows)),
        "library": evidence_text.library(row),
        "hidden": evidence_text.hidden(rows),
        "samples": evidence_text.samples(rows),
        "doubts": evidence_text.doubts(rows),
        **routine(row),
    }
