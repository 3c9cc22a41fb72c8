"""Each line of the lesson's table with what was seen here, agreeing or not."""

from __future__ import annotations

from collections import Counter
from typing import Any

from gemmgrid.records.text import count
from gemmgrid.report.draw.panels import drawable, shape_text
from gemmgrid.report.lesson.check import (
    AGREES,
    DISAGREES,
    EXPECTED,
    OPEN,
    PARTLY,
    Checked,
    Finding,
    check,
    document,
)
from gemmgrid.report.lesson.ways import explain, explain_counter, measure
from gemmgrid.report.page import evidence_text
from gemmgrid.report.page.evidence_text import routine
from gemmgrid.report.page.view import View, listed
from gemmgrid.report.read.evidence import SEEN
from gemmgrid.report.read.rows import Row

TITLE = "The lesson, checked"
MOST_FINDINGS = 12
MOST_KERNELS = 3


def build(view: View) -> dict[str, Any]:
    plan = view.collection.plan
    deploy = plan.deploy if plan else None
    checked = check(view.cells, view.collection.machines)
    return {
        "lesson": document()["lesson"],
        "lines": [_line(one, deploy) for one in checked],
        "counts": Counter(one.verdict for one in checked),
        "seen": sum(one.seen for one in checked),
        "overhead": {**document()["overhead"], "entries": overheads(view)},
        "beside": document()["beside"],
    }


def overheads(view: View) -> list[dict[str, Any]]:
    """Python's share of the lesson's product, or of the largest one measured, per series.

    Only products whose run also timed the same call on the smallest product there is.
    """
    claim = document()["overhead"]
    chosen: dict[tuple[str, str], Row] = {}
    for row in drawable(view.measured):
        if row["routine"] != "gemm" or row["options"] or row["call_overhead_ns"] is None:
            continue
        key = (row["machine"], row["backend"])
        if key not in chosen or _weight(row, claim["size"]) > _weight(chosen[key], claim["size"]):
            chosen[key] = row
    entries = []
    for _, row in sorted(chosen.items()):
        seconds = row["call_overhead_ns"] / 1e9
        share = seconds / row["time_s"]
        fair = _is_claimed(row, claim["size"])
        entries.append(
            {
                "row": row,
                "shape": shape_text(row),
                "microseconds": seconds * 1e6,
                "percent": 100 * share,
                "of_claimed": 100 * seconds / claim["seconds"],
                "verdict": (AGREES if share <= claim["share"] else DISAGREES) if fair else OPEN,
            }
        )
    return entries


def _is_claimed(row: Row, size: int) -> bool:
    return {row["m"], row["n"], row["k"]} == {size} and row["dtype"] == "float32"


def _weight(row: Row, size: int) -> tuple[Any, ...]:
    work = row["m"] * row["n"] * row["k"]
    return (_is_claimed(row, size), row["dtype"] == "float32", work, row["gflops"])


def _line(one: Checked, deploy: str | None) -> dict[str, Any]:
    way = one.line["way"]
    return {
        **one.line,
        "verdict": one.verdict,
        "seen": one.seen,
        "told": _told(one),
        "findings": [_finding(found) for found in one.findings[:MOST_FINDINGS]],
        "left_out": len(one.findings) - MOST_FINDINGS,
        "needs": way["needs"],
        "backend": way["backend"],
        "explain": explain(way, deploy),
        "measure": measure(way, deploy),
        "counter": explain_counter(way, deploy),
    }


def _told(one: Checked) -> str:
    """The line's verdict in a sentence."""
    seen = one.count(AGREES, DISAGREES)
    if one.verdict == AGREES:
        names = listed(one.routines(AGREES))
        return f"As the lesson says: {names} ran in {_all(seen)}."
    if one.verdict == DISAGREES:
        names = listed(one.routines(DISAGREES))
        return f"Not what the lesson says, in {_all(seen)}: {names}."
    if one.verdict == PARTLY:
        return (
            f"As the lesson says in {one.count(AGREES)} of {count('cell', seen)} seen; "
            f"in the others: {listed(one.routines(DISAGREES))}."
        )
    for verdict, words in (
        (EXPECTED[AGREES], "the library’s source says the same as the lesson"),
        (EXPECTED[DISAGREES], "the library’s source says otherwise than the lesson"),
    ):
        if one.verdict == verdict:
            return f"Not seen to run; {words}: {listed(one.routines(verdict))} is expected."
    if one.verdict == OPEN:
        return "Not seen to run; sources differ between the cells."
    if one.findings:
        return "Measured here, but what ran was not seen."
    return ""


def _all(count: int) -> str:
    return {1: "the one cell seen", 2: "both cells seen"}.get(count, f"all {count} cells seen")


def _finding(found: Finding) -> dict[str, Any]:
    row = found.row
    facts = routine(row)
    if not row["routine_seen"]:
        # What the lesson expects is the claim itself here, and no finding.
        facts |= {"routine": None, "expected": False}
    kernels = dict.fromkeys(
        (one["kernel_seen"], one["kernel_evidence"]) for one in found.rows if one["kernel_seen"]
    )
    return {
        "row": row,
        "count": len(found.rows),
        "verdict": found.verdict,
        "kernels": [
            {"name": name, "mark": mark, "expected": mark not in SEEN}
            for name, mark in list(kernels)[:MOST_KERNELS]
        ],
        "more_kernels": len(kernels) - MOST_KERNELS,
        "libraries": list(dict.fromkeys(filter(None, map(evidence_text.library, found.rows)))),
        "hidden": evidence_text.hidden(found.rows),
        "doubts": evidence_text.doubts(found.rows),
        **facts,
    }
