"""The tables: results/tables/{cells,runs}.{csv,parquet}, comparisons.csv and problems.csv.

Everything here is derived and may be deleted; the records stay the source. Absent values are empty
in CSV and null in Parquet. In CSV, text that a spreadsheet would take for a formula gets an
apostrophe in front, since records come from other people's machines; Parquet has it unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from io import BytesIO
from math import isfinite
from pathlib import Path
from typing import Any

import pandas as pd

from gemmgrid.records.files import write_atomically
from gemmgrid.report.judge import compare
from gemmgrid.report.judge.compare import Pair, told
from gemmgrid.report.read.collect import Collection
from gemmgrid.report.read.scan import TABLES


def _texts(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, "string")


def _wholes(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, "Int64")


def _reals(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, "Float64")


CELLS: dict[str, str] = {
    **_texts("machine", "backend", "routine", "dtype"),
    **_wholes("m", "n", "k", "threads"),
    **_texts("options", "cell", "status", "reason"),
    **_reals("gflops", "gflops_low", "gflops_high", "time_s"),
    **_wholes("invocations", "samples"),
    **_reals("rel_error"),
    **_texts("effective_precision"),
    **_wholes("threads_seen"),
    **_texts("library", "library_version", "library_file", "expression", "flags", "measured_at"),
    **_reals("last_good_gflops"),
    **_texts("last_good_at", "interval_kind"),
    **_reals("spread_low", "spread_high", "first_call_s", "import_s", "peak_share"),
    **_texts("routine_seen", "routine_evidence", "kernel_seen", "kernel_evidence"),
    **_texts("adapter", "device", "path", "retry", "apart_from", "difference"),
    **_wholes("interval_runs"),
    **_reals("best_gflops"),
    **_texts("state", "far", "ceiling"),
    **_reals("ceiling_share", "arithmetic_gflops", "memory_gbytes_s", "flop_per_cycle"),
    **_reals("componentwise", "switches", "migrations"),
    **_texts("bitwise", "result_digest"),
}
"""Columns of the cells' table and their types; rates in GFLOP/s (decimal), times in seconds.

time_s: seconds per call, the geometric mean over rounds, or over processes of one round; gflops and
its interval are from it; last_good_gflops, last_good_at: of the last good run, where the latest one
failed, which has no rate; apart_from: the machine in whose folder the runs are and which did not
make them; then `machine` is a name of their own, and `difference` says why; best_gflops and what
follows: `read.beside` computes them."""

RUNS: dict[str, str] = {
    **CELLS,
    **_texts("id", "started_at", "recorded_machine", "host_id", "gpu", "gpu_driver"),
    **_texts("host_hash", "device_hash", "tool_version", "tool_commit"),
    **_wholes("order"),
    **_texts("stop", "file", "slurm_node", "slurm_partition", "slurm_job_id"),
    "exclusive": "boolean",
}
COMPARISONS: dict[str, str] = {
    **_texts("kind", "first", "second", "machine", "backend", "second_machine", "second_backend"),
    **{name: CELLS[name] for name in ("routine", "dtype", "m", "n", "k", "threads", "options")},
    **_texts("cell"),
    **_reals("ratio", "ratio_low", "ratio_high"),
    **_texts("paired", "verdict"),
    **_reals("p_adjusted"),
    **_wholes("rounds_needed"),
    **_reals("first_gflops", "second_gflops"),
    **_wholes("first_processes", "second_processes", "first_rounds", "second_rounds"),
    **_texts("first_measured_at", "second_measured_at", "changes"),
}
"""Two sides of one cell; ratio: how many times as fast the first is, with its 95 % interval."""
PROBLEMS = {"file": "string", "line": "Int64", "problem": "string"}


def frame(rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str]) -> pd.DataFrame:
    """The rows as a table with exactly these columns and types, also when there are none."""
    listed = list(rows)
    return pd.DataFrame(
        {
            column: pd.array([row.get(column) for row in listed], dtype=kind)
            for column, kind in columns.items()
        }
    )


def write(collection: Collection) -> list[Path]:
    """Write all tables under results/tables, each whole or not at all; returns their paths."""
    folder = collection.results / TABLES
    cells = frame((row.values for row in collection.all_cells), CELLS)
    runs = frame((row.values for row in collection.all_runs), RUNS)
    comparisons = frame(comparison_rows(all_pairs(collection)), COMPARISONS)
    problems = frame(map(asdict, collection.problems), PROBLEMS)
    written = []
    tables = {"cells": cells, "runs": runs, "comparisons": comparisons, "problems": problems}
    for name, table in tables.items():
        contents = {"csv": to_csv(table)}
        if name in ("cells", "runs"):
            contents["parquet"] = to_parquet(table)
        for kind, content in contents.items():
            written.append(folder / f"{name}.{kind}")
            write_atomically(written[-1], content)
    return written


def all_pairs(collection: Collection) -> list[Pair]:
    """Every comparison that the report makes by itself."""
    return [
        *compare.before_and_after(collection.runs),
        *compare.machine_pairs(collection.cells),
        *compare.backend_pairs(collection.cells),
    ]


def comparison_rows(pairs: Iterable[Pair]) -> Iterator[dict[str, Any]]:
    """A row for each cell of each pair."""
    for pair in pairs:
        for one in pair.comparisons:
            first, second, limits = one.first, one.second, one.interval
            yield {
                **{name: first[name] for name in COMPARISONS},
                "kind": pair.kind,
                "first": pair.first,
                "second": pair.second,
                "second_machine": second["machine"],
                "second_backend": second["backend"],
                "ratio": one.ratio,
                "ratio_low": limits.low if limits and isfinite(limits.high) else None,
                "ratio_high": limits.high if limits and isfinite(limits.high) else None,
                "paired": one.pairing,
                "verdict": one.verdict,
                "p_adjusted": one.share if one.tested else None,
                "rounds_needed": one.needed,
                "first_gflops": first["gflops"],
                "second_gflops": second["gflops"],
                "first_processes": first["invocations"],
                "second_processes": second["invocations"],
                "first_rounds": first.rounds,
                "second_rounds": second.rounds,
                "first_measured_at": first["measured_at"],
                "second_measured_at": second["measured_at"],
                "changes": "; ".join(told(pair.changes(one))) or None,
            }


def to_csv(table: pd.DataFrame) -> bytes:
    safe = table.copy()
    for column in table.columns:
        if table[column].dtype == "string":
            safe[column] = table[column].str.replace(r"^(?=[=+\-@])", "'", regex=True)
    return safe.to_csv(index=False, lineterminator="\n").encode()


def to_parquet(table: pd.DataFrame) -> bytes:
    buffer = BytesIO()
    table.to_parquet(buffer, index=False, engine="pyarrow")
    return buffer.getvalue()
