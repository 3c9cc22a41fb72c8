"""Expression → routine → kernel, each with how it is known."""

from __future__ import annotations

from typing import Any

from gemmgrid.report.evidence import MARKS
from gemmgrid.report.rows import Row, reading_order
from gemmgrid.report.sections.exercise import routine
from gemmgrid.report.view import View

TITLE = "What really ran"


def build(view: View) -> dict[str, Any]:
    """One entry for all cells, on all machines, of a backend and dtype that ran the same way."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in sorted(view.cells, key=reading_order):
        if not row["expression"] or row["status"] == "excluded":
            continue
        facts = routine(row)
        hidden = tuple(_hidden_text(row))
        key = (
            *(row[column] for column in ("backend", "routine", "dtype", "expression")),
            _library(row),
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
        "library": _library(row),
        "hidden": _hidden_text(row),
        "unknown": _why_unknown(row),
        **routine(row),
    }


def _library(row: Row) -> str:
    return " ".join(filter(None, (row["library"], row["library_version"])))


def _hidden_text(row: Row) -> list[str]:
    """What the expression does not show, a sentence each; counts are left to the records."""
    return list(
        dict.fromkeys(
            f"{work.what}: {work.explanation}" if work.explanation else work.what
            for work in row.evidence.hidden
        )
    )


def _why_unknown(row: Row) -> str | None:
    reasons = [
        finding.reason
        for finding in (*row.evidence.routines, *row.evidence.kernels)
        if finding.mark == "unknown" and finding.reason
    ]
    return row.evidence.reason or "; ".join(dict.fromkeys(reasons)) or None
