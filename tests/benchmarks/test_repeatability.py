"""benchmarks/repeatability.py: its arithmetic, and that it goes on where it stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from repeatability import CELLS, Store
from support import repeated

from gemmgrid.records.cell import Cell
from gemmgrid.report.read.rows import Row, from_run
from gemmgrid.report.read.scan import CellFile
from tests.report import synthetic

CELL = Cell.parse("gemm.float32.128x128x128.t1")
POINT = ("numpy-openblas", CELL.name)


def row(times: list[float], hour: int = 1, **fields: Any) -> Row:
    """A result whose rounds took these seconds per call."""
    count = len(times)
    run = synthetic.run(CELL, rounds=count, invocations=count, samples=1, hour=hour, **fields)
    for one, seconds in zip(run["invocations"], times, strict=True):
        one |= {"inner": 100, "samples": {"elapsed_ns": [round(seconds * 1e11)]}}
    place = CellFile("machine-a", "numpy-openblas", CELL, Path("x"))
    return from_run(run, place)


STEADY = [1.000, 1.001, 0.999, 1.0005, 0.9995]


def test_the_spread_is_the_largest_result_over_the_smallest_in_one_state():
    rows = [row(STEADY), row([time * 1.03 for time in STEADY])]
    far = row([2 * time for time in STEADY], flags=["other-state"])
    found = repeated.repeated([{POINT: (*rows, far)}], POINT)
    assert found.spread == pytest.approx(0.03, abs=1e-3)
    assert found.apart == 1
    assert found.between is None


def test_an_interval_holds_the_grand_median_or_does_not():
    results = [{POINT: (row(STEADY), row(STEADY))}, {POINT: (row([1.02 * t for t in STEADY]),)}]
    found = repeated.repeated(results, POINT)
    assert found.grand == pytest.approx(1.0, abs=0.002)
    assert found.held() == [(5, True), (5, True), (5, False)]
    # With the two before it, the third interval holds what lies between the runs.
    assert found.held(over=True) == [(5, True)] * 3


def repetitions(between: float, seed: int = 3, count: int = 6) -> list[repeated.Results]:
    """One cell under two names in each: 1 % between rounds, shared, and 0.2 % of their own."""
    rng = np.random.default_rng(seed)
    made = []
    for hour in range(count):
        shared = between * rng.standard_normal() + 0.01 * rng.standard_normal(5)
        times = np.exp(shared + 0.002 * rng.standard_normal((2, 5)))
        made.append({POINT: tuple(row(list(one), hour + 1) for one in times)})
    return made


def test_a_cell_against_itself():
    found = repetitions(0.0)
    assert repeated.paired(found) == {"same": 6}
    unpaired = repeated.unpaired(found)
    assert unpaired.total() == 15
    assert set(unpaired) <= {"same", "cannot tell"}


def test_runs_that_shift_as_a_whole_give_false_verdicts_at_two_times_only():
    found = repetitions(0.2)
    assert repeated.unpaired(found)["faster"] + repeated.unpaired(found)["slower"] > 5
    assert repeated.paired(found) == {"same": 6}


def test_the_report_states_each_target():
    told = "\n".join(repeated.report("five rounds", repetitions(0.2), [POINT]))
    assert "five rounds, 6 repetitions of 1 cells" in told
    assert "target ≤ 5%: MISSED" in told
    assert "A/A, the same rounds, paired: 0.0% false of 6 (6 same); target ≤ 5%: met" in told
    assert "over the runs until then" in told


def test_too_few_repetitions_say_nothing():
    told = list(repeated.report("five rounds", [{POINT: (row(STEADY),)}], [POINT]))
    assert told == ["five rounds: no cell has two results, which say too little"]


def test_the_store_gives_back_what_it_kept_and_keeps_settings_apart(tmp_path):
    store = Store(tmp_path, [POINT], {"sample_s": 0.2})
    good, bad = synthetic.run(CELL, rounds=5), synthetic.run(CELL, status="crashed")
    store.write("five rounds", 3, {POINT: [good, bad]})
    assert store.path("five rounds", 3).exists()
    (found,) = store.read("five rounds")
    assert [one.measured for one in found[POINT]] == [True]
    assert store.read("one round") == []
    assert Store(tmp_path, [POINT], {"sample_s": 0.3}).read("five rounds") == []


def test_there_are_twelve_cells_each_with_its_true_name():
    assert len(set(CELLS)) == 12
    assert all(Cell.parse(name).name == name for _, name in CELLS)


def test_the_program_goes_on_where_it_stopped(program, tmp_path):
    keep = tmp_path / "kept"
    stopped = program("repeatability.py", "--quick", "--keep", keep, "--minutes", -1)
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    assert "2 repetitions are still to do" in stopped.stdout

    begun = program("repeatability.py", "--quick", "--keep", keep, "--repetitions", 1)
    first = {path: path.read_bytes() for path in keep.rglob("*.jsonl")}
    assert len(first) == 1, begun.stdout + begun.stderr

    done = program("repeatability.py", "--quick", "--keep", keep)
    assert "still to do" not in done.stdout
    assert "five rounds, 2 repetitions of 2 cells" in done.stdout, done.stdout + done.stderr
    assert len(list(keep.rglob("*.jsonl"))) == 2
    assert {path: path.read_bytes() for path in first} == first
    assert "A/A, the same rounds, paired" in done.stdout


def test_cells_that_are_none_are_refused(program):
    told = program("repeatability.py", "--cells", "nothing")
    assert told.returncode == 2
    assert "no cell's name has any of these words" in told.stderr
