"""How right the results were, and in which precision they were really computed."""

from __future__ import annotations

from typing import Any

from gemmgrid.report.page.view import View
from gemmgrid.report.read.rows import Row, reading_order

TITLE = "Accuracy"


def build(view: View) -> dict[str, Any]:
    """One entry a machine, backend, routine, dtype and effective precision."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in sorted(view.cells, key=reading_order):
        if row["rel_error"] is not None or row["effective_precision"]:
            columns = ("routine", "dtype", "machine", "backend", "effective_precision")
            groups.setdefault(tuple(row[column] for column in columns), []).append(row)
    entries = [_entry(rows) for _, rows in sorted(groups.items(), key=_order)]
    return {"entries": entries, "bits": any(entry["bits"] for entry in entries)}


def _order(group: tuple[tuple[Any, ...], list[Row]]) -> tuple[str, ...]:
    return tuple(str(part) for part in group[0])


def _entry(rows: list[Row]) -> dict[str, Any]:
    row = rows[0]
    errors = [other["rel_error"] for other in rows if other["rel_error"] is not None]
    sizes = [other["componentwise"] for other in rows if other["componentwise"] is not None]
    effective = row["effective_precision"]
    return {
        "row": row,
        "count": len(rows),
        "least": min(errors, default=None),
        "most": max(errors, default=None),
        "componentwise": max(sizes, default=None),
        "bits": _bits(rows),
        "wrong": sum(other["status"] == "wrong" for other in rows),
        "reduced": any("reduced-precision" in other.flags for other in rows),
        "differs": effective is not None and effective != row["dtype"],
    }


def _bits(rows: list[Row]) -> list[str]:
    """Where results of equal operands are bitwise the same: over processes, over thread counts."""
    told = [row for row in rows if row["bitwise"]]
    threads: dict[tuple[Any, ...], list[str | None]] = {}
    for row in told:
        key = tuple(row[column] for column in ("m", "n", "k", "options"))
        threads.setdefault(key, []).append(row["result_digest"])
    several = [digests for digests in threads.values() if len(digests) > 1]
    return [
        f"over {over}: {_share(same)}"
        for over, same in (
            ("processes", [row["bitwise"] == "same" for row in told]),
            ("thread counts", [len(set(one)) == 1 and None not in one for one in several]),
        )
        if same
    ]


def _share(same: list[bool]) -> str:
    if all(same):
        return "yes"
    return f"{sum(same)} of {len(same)} cells" if any(same) else "no"
