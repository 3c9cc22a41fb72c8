"""Every cell, in a table that sorts and filters: the data for assets/table.js."""

from __future__ import annotations

from math import isfinite
from typing import Any

from gemmgrid.report.draw.panels import shape_text
from gemmgrid.report.page.view import View
from gemmgrid.report.read.rows import Row, reading_order

TITLE = "All cells"

COLUMNS: tuple[tuple[str, str, str], ...] = (
    ("machine", "machine", "text"),
    ("backend", "backend", "text"),
    ("routine", "routine", "text"),
    ("dtype", "dtype", "text"),
    ("shape", "m×n×k", "shape"),
    ("threads", "threads", "count"),
    ("options", "options", "text"),
    ("gflops", "GFLOP/s", "number"),
    ("interval", "95 % interval", "interval"),
    ("status", "status", "status"),
    ("flags", "flags", "flags"),
    ("time_s", "time", "seconds"),
    ("rel_error", "relative error", "number"),
    ("effective_precision", "computed in", "text"),
)
"""Key, heading and kind of each visible column."""

DETAILS: tuple[tuple[str, str, str], ...] = (
    ("cell", "cell", "code"),
    ("expression", "expression", "code"),
    ("reason", "reason", "text"),
    ("last_good_gflops", "last good GFLOP/s", "number"),
    ("last_good_at", "last good run", "text"),
    ("routine_seen", "routine seen", "evidence"),
    ("kernel_seen", "kernel seen", "evidence"),
    ("library", "library", "text"),
    ("library_version", "library version", "text"),
    ("library_file", "library file", "code"),
    ("spread_low", "quartiles of all samples, GFLOP/s", "spread"),
    ("interval_kind", "interval over", "text"),
    ("invocations", "invocations", "count"),
    ("samples", "samples", "count"),
    ("threads_seen", "threads seen", "count"),
    ("best_gflops", "fastest process, GFLOP/s", "number"),
    ("state", "state of the CPUs", "text"),
    ("far", "in another state", "text"),
    ("ceiling_share", "share of the measured ceiling", "share"),
    ("ceiling", "which ceiling", "text"),
    ("arithmetic_gflops", "measured arithmetic, GFLOP/s", "number"),
    ("memory_gbytes_s", "measured memory, GB/s", "number"),
    ("peak_share", "share of the known peak", "share"),
    ("flop_per_cycle", "operations a cycle", "number"),
    ("switches", "switches of threads in a process", "number"),
    ("migrations", "threads moved between CPUs", "number"),
    ("componentwise", "componentwise error, in roundoffs", "number"),
    ("bitwise", "bits of the result, over processes", "text"),
    ("first_call_s", "first call", "seconds"),
    ("import_s", "import", "seconds"),
    ("measured_at", "measured at", "text"),
    ("slurm", "SLURM", "text"),
    ("difference", "apart from its machine because", "text"),
    ("path", "file", "code"),
    ("retry", "try again", "command"),
)
"""Key, name and kind of what a row shows when it is opened."""

_EXTRA = ("gflops_low", "gflops_high", "spread_high", "routine_evidence", "kernel_evidence", "n")
FILTERS = ("machine", "backend", "routine", "dtype", "threads", "options", "status")
_DERIVED = {"shape", "interval"}


def build(view: View) -> dict[str, Any]:
    rows = sorted(view.collection.all_cells, key=reading_order)
    keys = [key for key, _, _ in (*COLUMNS, *DETAILS) if key not in _DERIVED] + list(_EXTRA)
    keys = list(dict.fromkeys(keys))
    choices = {key: sorted({row[key] for row in rows}, key=_choice_order) for key in FILTERS}
    return {
        "count": len(rows),
        "columns": COLUMNS,
        "filters": {key: values for key, values in choices.items() if len(values) > 1},
        "data": {
            "columns": COLUMNS,
            "details": DETAILS,
            "keys": [*keys, "shape", "size"],
            "rows": [_packed(row, keys) for row in rows],
        },
    }


def _packed(row: Row, keys: list[str]) -> list[Any]:
    size = (row["m"] or 1) * row["n"] * (row["k"] or 1)
    return [*(_short(row[key]) for key in keys), shape_text(row), float(size)]


def _short(value: Any) -> Any:
    """Numbers to six digits: nothing is shown with more, and JSON knows no infinity."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.6g}") if isfinite(value) else None


def _choice_order(value: Any) -> tuple[bool, Any]:
    return (isinstance(value, str), value)
