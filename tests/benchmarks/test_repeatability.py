"""benchmarks/repeatability.py: its arithmetic, and that it goes on where it stopped."""

from __future__ import annotations

import json

import pytest
from repeatability import CELLS, Store, grand_median, judge, report

from gemmgrid.records.cell import Cell

POINT = ("numpy-openblas", "gemm.float32.8x8x8.t1")
OTHER = ("numpy-openblas", "gemm.float32.16x16x16.t1")


def test_the_spread_is_the_largest_result_over_the_smallest():
    found = judge([[1.0, 1.0, 1.0], [1.0, 1.03, 1.0609], [0.99, 1.0, 1.01]], grand=1.0)
    assert found.spread == pytest.approx(1.03, abs=1e-3)
    assert found.count == 3


def test_an_interval_holds_the_grand_median_or_does_not():
    tight = [1.000, 1.001, 0.999, 1.0005, 0.9995]
    assert judge([tight], grand=1.0).held == 1
    assert judge([tight], grand=1.01).held == 0
    assert judge([tight, [1.1, 0.9, 1.0, 1.05, 0.95]], grand=1.01).held == 1


def test_the_grand_median_is_over_all_processes_of_both_ways():
    runs = {"one round": {POINT: [[1, 2], [3]]}, "five rounds": {POINT: [[4, 5]]}}
    assert grand_median(runs, POINT) == 3


def test_the_report_counts_cells_intervals_and_what_was_lost(capsys):
    steady = {POINT: [1.0, 1.001, 0.999]}
    found = {
        "one round": [steady | {OTHER: [1.0, 1.0]}, steady | {OTHER: []}],
        "five rounds": [steady | {OTHER: [1.0, 1.001]}, steady | {OTHER: [1.2, 1.201]}],
    }
    assert report([POINT, OTHER], found) == 1
    said = capsys.readouterr().out
    one, five = said.split("five rounds, 2 repetitions")
    assert "one round, 2 repetitions of 2 cells" in one
    assert OTHER[1] not in one  # a single repetition says nothing about repeating
    assert "within 3%: 1 of 1 cells" in one
    assert "100.0% of 2; target ≥ 88%: met" in one
    assert "within 3%: 1 of 2 cells" in five
    assert "75.0% of 4; target ≥ 93%: MISSED" in five


def test_too_few_repetitions_say_nothing(capsys):
    report([POINT], {"one round": [{POINT: [1.0, 1.0]}], "five rounds": []})
    assert capsys.readouterr().out.count("no cell has two repetitions") == 2


def test_the_store_gives_back_what_it_kept_and_keeps_settings_apart(tmp_path):
    store = Store(tmp_path, [POINT], {"sample_s": 0.2})
    store.write("five rounds", 3, {POINT: [1.5, 2.5]})
    assert store.path("five rounds", 3).exists()
    assert store.read("five rounds") == [{POINT: [1.5, 2.5]}]
    assert store.read("one round") == []
    assert Store(tmp_path, [POINT], {"sample_s": 0.3}).read("five rounds") == []


def test_there_are_twelve_cells_each_with_its_true_name():
    assert len(set(CELLS)) == 12
    assert all(Cell.parse(name).name == name for _, name in CELLS)


def test_the_program_goes_on_where_it_stopped(program, tmp_path):
    keep = tmp_path / "kept"
    stopped = program("repeatability.py", "--quick", "--keep", keep, "--minutes", 0)
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    assert "4 repetitions are still to do" in stopped.stdout

    begun = program("repeatability.py", "--quick", "--keep", keep, "--repetitions", 1)
    assert "no cell has two repetitions" in begun.stdout, begun.stdout + begun.stderr
    first = {path: path.read_bytes() for path in keep.rglob("*.json")}
    assert len(first) == 2

    done = program("repeatability.py", "--quick", "--keep", keep)
    assert "still to do" not in done.stdout
    for way in ("one round", "five rounds"):
        assert f"{way}, 2 repetitions of 2 cells" in done.stdout, done.stdout + done.stderr
    assert len(list(keep.rglob("*.json"))) == 4
    assert {path: path.read_bytes() for path in first} == first
    for path in first:
        for _, _, seconds in json.loads(path.read_text()):
            assert len(seconds) in (0, 5)  # five processes, also where rounds were gathered
