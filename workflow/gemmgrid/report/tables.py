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
from gemmgrid.report.judge.compare import BACKENDS, Pair, told
from gemmgrid.report.read.collect import Collection
from gemmgrid.report.read.scan import TABLES

CELLS: dict[str, str] = {
    "machine": "string",
    "backend": "string",
    "routine": "string",
    "dtype": "string",
    "m": "Int64",
    "n": "Int64",
    "k": "Int64",
    "threads": "Int64",
    "options": "string",
    "cell": "string",
    "status": "string",
    "reason": "string",
    "gflops": "Float64",
    "gflops_low": "Float64",
    "gflops_high": "Float64",
    "time_s": "Float64",
    "invocations": "Int64",
    "samples": "Int64",
    "rel_error": "Float64",
    "effective_precision": "string",
    "threads_seen": "Int64",
    "library": "string",
    "library_version": "string",
    "library_file": "string",
    "expression": "string",
    "flags": "string",
    "measured_at": "string",
    "last_good_gflops": "Float64",
    "last_good_at": "string",
    "interval_kind": "string",
    "spread_low": "Float64",
    "spread_high": "Float64",
    "first_call_s": "Float64",
    "import_s": "Float64",
    "peak_share": "Float64",
    "routine_seen": "string",
    "routine_evidence": "string",
    "kernel_seen": "string",
    "kernel_evidence": "string",
    "adapter": "string",
    "device": "string",
    "path": "string",
    "retry": "string",
    "apart_from": "string",
    "difference": "string",
}
"""Columns of the cells' table and their types; rates in GFLOP/s (decimal), times in seconds.

time_s: seconds per call, the geometric mean over rounds, or over processes of one round; gflops and
its interval are from it; last_good_gflops, last_good_at: of the last good run, where the latest one
failed, which has no rate; apart_from: the machine in whose folder the runs are and which did not
make them; then `machine` is a name of their own, and `difference` says why."""

RUNS: dict[str, str] = {
    **CELLS,
    "id": "string",
    "started_at": "string",
    "recorded_machine": "string",
    "host_id": "string",
    "gpu": "string",
    "gpu_driver": "string",
    "host_hash": "string",
    "device_hash": "string",
    "tool_version": "string",
    "tool_commit": "string",
    "order": "Int64",
    "stop": "string",
    "file": "string",
    "slurm_node": "string",
    "slurm_partition": "string",
    "slurm_job_id": "string",
    "exclusive": "boolean",
}
COMPARISONS: dict[str, str] = {
    "kind": "string",
    "first": "string",
    "second": "string",
    "machine": "string",
    "backend": "string",
    "second_machine": "string",
    "second_backend": "string",
    **{name: CELLS[name] for name in ("routine", "dtype", "m", "n", "k", "threads", "options")},
    "cell": "string",
    "ratio": "Float64",
    "ratio_low": "Float64",
    "ratio_high": "Float64",
    "verdict": "string",
    "p_adjusted": "Float64",
    "rounds_needed": "Int64",
    "first_gflops": "Float64",
    "second_gflops": "Float64",
    "first_processes": "Int64",
    "second_processes": "Int64",
    "first_rounds": "Int64",
    "second_rounds": "Int64",
    "first_measured_at": "string",
    "second_measured_at": "string",
    "changes": "string",
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
                "changes": "; ".join(told(one.changes)) if pair.kind != BACKENDS else None,
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
