"""The tables on disk: columns, types, nulls, and text from strangers."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from gemmgrid.report import tables
from gemmgrid.report.read.collect import Collection, collect
from tests.report import synthetic

CELL = synthetic.gemm(64)


@pytest.fixture(scope="module")
def written(collection: Collection) -> Path:
    paths = tables.write(collection)
    assert [path.name for path in paths] == [
        "cells.csv",
        "cells.parquet",
        "runs.csv",
        "runs.parquet",
        "comparisons.csv",
        "problems.csv",
    ]
    return paths[0].parent


def test_columns_and_types(written: Path) -> None:
    cells = pd.read_parquet(written / "cells.parquet")
    assert list(cells.columns) == list(tables.CELLS)
    assert {str(kind) for kind in cells.dtypes} <= {"string", "str", "Int64", "Float64"}
    runs = pd.read_parquet(written / "runs.parquet")
    assert str(runs["exclusive"].dtype) == "boolean"
    assert list(runs.columns) == list(tables.RUNS)
    assert set(tables.CELLS) < set(tables.RUNS)


def test_csv_says_the_same_as_parquet(written: Path) -> None:
    parquet = pd.read_parquet(written / "cells.parquet")
    csv = pd.read_csv(written / "cells.csv")
    assert list(csv["cell"]) == list(parquet["cell"])
    pd.testing.assert_series_equal(
        csv["gflops"].astype("Float64"), parquet["gflops"], check_exact=True
    )


def test_a_row_a_cell_and_a_row_a_run(written: Path, collection: Collection) -> None:
    cells = pd.read_parquet(written / "cells.parquet")
    assert len(cells) == len(collection.cells)
    assert not cells.duplicated(["machine", "backend", "cell"]).any()
    assert len(pd.read_parquet(written / "runs.parquet")) == len(collection.runs)


def test_rates_are_null_exactly_where_nothing_is_published(written: Path) -> None:
    cells = pd.read_parquet(written / "cells.parquet")
    assert (cells["gflops"].notna() == (cells["status"] == "ok")).all()
    assert (cells["retry"].isna() | (cells["status"] != "ok")).all()
    assert not (cells["gflops"] == 0).any()
    assert cells.loc[cells["status"] != "ok", "reason"].notna().all()


def test_writing_again_gives_the_same_bytes(study: Path, written: Path) -> None:
    before = {path.name: path.read_bytes() for path in written.iterdir()}
    tables.write(collect(study))
    assert {path.name: path.read_bytes() for path in written.iterdir()} == before


def test_nothing_at_all_gives_empty_tables_with_their_columns(tmp_path: Path) -> None:
    tables.write(collect(tmp_path))
    cells = pd.read_parquet(tmp_path / "tables" / "cells.parquet")
    assert list(cells.columns) == list(tables.CELLS)
    assert len(cells) == 0
    assert (tmp_path / "tables" / "problems.csv").read_text() == "file,line,problem\n"


def test_problems_have_their_table(tmp_path: Path) -> None:
    path = synthetic.write_run(tmp_path, synthetic.run(CELL))
    with path.open("a") as file:
        file.write("{truncated\n")
    tables.write(collect(tmp_path))
    problems = pd.read_csv(tmp_path / "tables" / "problems.csv")
    (line,) = problems.loc[problems["file"] == path.as_posix(), "line"]
    assert line == 2


def test_the_tables_folder_is_no_machine(tmp_path: Path) -> None:
    synthetic.write_run(tmp_path, synthetic.run(CELL))
    tables.write(collect(tmp_path))
    found = collect(tmp_path)
    assert list(found.machines) == ["machine-a"]


@pytest.mark.parametrize("text", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)"])
def test_text_is_no_formula_in_a_spreadsheet(tmp_path: Path, text: str) -> None:
    synthetic.write_run(tmp_path, synthetic.run(CELL, status="crashed", reason=text))
    tables.write(collect(tmp_path))
    csv = pd.read_csv(tmp_path / "tables" / "cells.csv")
    assert csv["reason"][0] == "'" + text
    assert pd.read_parquet(tmp_path / "tables" / "cells.parquet")["reason"][0] == text


def test_a_reason_of_many_lines_stays_one_line(tmp_path: Path) -> None:
    reason = 'line one\nline "two",\r\nthree'
    synthetic.write_run(tmp_path, synthetic.run(CELL, status="crashed", reason=reason))
    tables.write(collect(tmp_path))
    text = (tmp_path / "tables" / "cells.csv").read_text(encoding="utf-8")
    assert len(text.splitlines()) == 2
    assert (
        pd.read_csv(tmp_path / "tables" / "cells.csv")["reason"][0] == 'line one line "two", three'
    )


def test_a_reader_never_sees_half_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that cannot be finished leaves the earlier one as it was."""
    synthetic.write_run(tmp_path, synthetic.run(CELL))
    tables.write(collect(tmp_path))
    before = (tmp_path / "tables" / "cells.csv").read_bytes()
    synthetic.write_run(tmp_path, synthetic.run(synthetic.gemm(128)))
    monkeypatch.setattr("os.fsync", lambda handle: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        tables.write(collect(tmp_path))
    assert (tmp_path / "tables" / "cells.csv").read_bytes() == before
    assert not [path for path in (tmp_path / "tables").iterdir() if path.name.startswith(".")]
