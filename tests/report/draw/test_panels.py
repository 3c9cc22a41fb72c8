"""What is drawn: which cells, on which panel, and few enough lines to tell apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gemmgrid.records.cell import Cell
from gemmgrid.report.draw.panels import MOST_LINES, Panel, size_sweeps, thread_scalings
from gemmgrid.report.read.collect import collect
from gemmgrid.report.read.rows import Row
from tests.report import synthetic


def rows(results: Path, *runs: dict[str, Any]) -> list[Row]:
    for document in runs:
        synthetic.write_run(results, document)
    return collect(results).cells


def run(cell: Cell, backend: str = "numpy-openblas", **fields: Any) -> dict[str, Any]:
    return synthetic.run(cell, fields.pop("machine", "machine-a"), backend, samples=3, **fields)


def titles(panels: list[Panel]) -> list[str]:
    return [panel.title for panel in panels]


def test_a_panel_per_routine_and_dtype(tmp_path: Path) -> None:
    cells = [synthetic.gemm(n, dtype) for dtype in ("float64", "float32") for n in (64, 128)]
    cells += [Cell("gemv", "float32", (n, n), 1) for n in (64, 128)]
    cells += [Cell("dot", "float32", (n,), 1) for n in (64, 128)]
    panels = size_sweeps(rows(tmp_path, *map(run, cells)))
    assert titles(panels) == [
        "gemm · float32 · 1 thread",
        "gemm · float64 · 1 thread",
        "gemv · float32 · 1 thread",
        "dot · float32 · 1 thread",
    ]
    assert panels[0].xs == [64, 128]


def test_most_threads_first_then_one_thread(tmp_path: Path) -> None:
    cells = [synthetic.gemm(n, threads=t) for n in (64, 128) for t in (1, 2, 4)]
    panels = size_sweeps(rows(tmp_path, *map(run, cells)))
    assert titles(panels) == ["gemm · float32 · 4 threads", "gemm · float32 · 1 thread"]
    assert {row["threads"] for row in panels[0].lines["machine-a", "numpy-openblas"]} == {4}


def test_machines_with_other_core_counts_share_a_panel(tmp_path: Path) -> None:
    runs = [
        run(synthetic.gemm(n, threads=t), machine=machine)
        for n in (64, 128)
        for machine, t in (("small", 2), ("large", 64))
    ]
    (panel,) = size_sweeps(rows(tmp_path, *runs))
    assert panel.title == "gemm · float32 · 2 or 64 threads"
    assert len(panel.lines) == 2


def test_wrong_threads_are_not_drawn(tmp_path: Path) -> None:
    runs = [run(synthetic.gemm(n, threads=t)) for n in (64, 128) for t in (1, 2)]
    runs[-1]["flags"] = ["wrong-threads"]
    found = rows(tmp_path, *runs)
    drawn = [row for panel in size_sweeps(found) for own in panel.lines.values() for row in own]
    assert len(drawn) == 2
    assert [row["threads"] for row in drawn] == [1, 1]
    (scaling,) = thread_scalings(found)
    assert scaling.title == "gemm · float32 · 64×64×64"


def test_one_size_is_no_curve_and_oblong_is_no_size(tmp_path: Path) -> None:
    found = rows(tmp_path, run(synthetic.gemm(64)), run(Cell("gemm", "float32", (64, 128, 64), 1)))
    assert size_sweeps(found) == []


def test_failed_cells_are_not_drawn(tmp_path: Path) -> None:
    found = rows(
        tmp_path,
        run(synthetic.gemm(64)),
        run(synthetic.gemm(128)),
        run(synthetic.gemm(256), status="wrong"),
    )
    assert size_sweeps(found)[0].xs == [64, 128]


def test_options_have_panels_of_their_own_after_the_rest(tmp_path: Path) -> None:
    cells = [synthetic.gemm(n, **options) for n in (64, 128) for options in ({}, {"trans": "nt"})]
    assert titles(size_sweeps(rows(tmp_path, *map(run, cells)))) == [
        "gemm · float32 · 1 thread",
        "gemm · float32 · nt · 1 thread",
    ]


def test_too_many_lines_are_split_by_machine_then_in_parts(tmp_path: Path) -> None:
    runs = [
        run(synthetic.gemm(n), f"backend-{index:02d}", machine=machine)
        for machine in ("one", "two")
        for index in range(10 if machine == "one" else 3)
        for n in (64, 128)
    ]
    panels = size_sweeps(rows(tmp_path, *runs))
    assert titles(panels) == [
        "gemm · float32 · 1 thread · one · part 1 of 2",
        "gemm · float32 · 1 thread · one · part 2 of 2",
        "gemm · float32 · 1 thread · two",
    ]
    assert all(len(panel.lines) <= MOST_LINES for panel in panels)
    assert len({panel.limits for panel in panels}) == 1


def test_scaling_needs_one_thread_and_more(tmp_path: Path) -> None:
    runs = [run(synthetic.gemm(64, threads=t)) for t in (1, 2)]
    runs += [run(synthetic.gemm(64, threads=t), "torch-cpu") for t in (2, 4)]
    runs += [run(synthetic.gemm(64), "jax-cpu")]
    (panel,) = thread_scalings(rows(tmp_path, *runs))
    assert list(panel.lines) == [("machine-a", "numpy-openblas")]
    assert panel.xs == [1, 2]


def test_scaling_takes_the_size_with_most_backends_then_the_largest(tmp_path: Path) -> None:
    runs = [run(synthetic.gemm(n, threads=t)) for n in (64, 128, 512) for t in (1, 2)]
    runs += [run(synthetic.gemm(n, threads=t), "torch-cpu") for n in (64, 128) for t in (1, 2)]
    (panel,) = thread_scalings(rows(tmp_path, *runs))
    assert panel.title == "gemm · float32 · 128×128×128"
