"""Counting cells that arrive from nodes, several at a time."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gemmgrid.measure.supervise.progress import Progress, passing_over
from gemmgrid.records import history
from tests.measure.parts import part

TICKS = """
import sys
from pathlib import Path
from gemmgrid.measure.supervise.progress import Progress
for number in range(10):
    Progress(Path(sys.argv[1]), Path(sys.argv[2])).tick(f"cell {sys.argv[3]}.{number}")
"""


def test_cells_that_arrive_at_once_are_counted_one_by_one(tmp_path):
    counter, log = tmp_path / "progress.json", tmp_path / "logs/all.log"
    counter.write_text(json.dumps({"total": 40, "seconds": []}))
    package = str(Path(history.__file__).parents[2])
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", TICKS, str(counter), str(log), str(number)],
            env={"PYTHONPATH": package},
            stderr=subprocess.DEVNULL,
        )
        for number in range(4)
    ]
    assert [process.wait(60) for process in processes] == [0] * 4
    assert json.loads(counter.read_text()) == {"total": 40, "seconds": [0.0] * 40}
    lines = log.read_text().splitlines()
    assert [re.match(r"\[ ?(\d+)/40\] ", line)[1] for line in lines] == [
        str(number) for number in range(1, 41)
    ]
    assert len({line.split("] ")[1] for line in lines}) == 40


def test_a_tick_says_what_arrived(tmp_path, capfd):
    counter = tmp_path / "progress.json"
    counter.write_text(json.dumps({"total": 2, "seconds": [1.5]}))
    Progress(counter).tick("ice  a cell")
    assert capfd.readouterr().err == "[2/2] ice  a cell\n"
    assert json.loads(counter.read_text())["seconds"] == [1.5, 0.0]


def test_without_a_counter_it_still_says_it(tmp_path, capfd):
    Progress(tmp_path / "none/progress.json").tick("ice  a cell")
    assert capfd.readouterr().err == "ice  a cell\n"


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (errno.ENOSYS, ""),
        (errno.ENOLCK, ""),
        (errno.EOPNOTSUPP, ""),
        (errno.EIO, "is counted without its lock: Input/output error; passed over\n"),
    ],
)
def test_without_locks_it_counts_all_the_same(tmp_path, monkeypatch, capfd, number, told):
    def refuse(file, operation):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    counter = tmp_path / "progress.json"
    counter.write_text(json.dumps({"total": 2, "seconds": [1.5]}))
    Progress(counter).tick("ice  a cell")
    said = capfd.readouterr().err
    assert said.endswith("[2/2] ice  a cell\n")
    assert said.removesuffix("[2/2] ice  a cell\n").endswith(told) and bool(told) == (
        "passed over" in said
    )
    assert json.loads(counter.read_text())["seconds"] == [1.5, 0.0]


DONE = """
import json, sys
from pathlib import Path
from gemmgrid.measure.supervise.progress import Progress, outcome_line
run = json.loads(sys.argv[1])
Progress(Path(sys.argv[2]), Path(sys.argv[3])).done(outcome_line(run))
"""


def test_a_terminal_without_its_characters_is_told_all_the_same(tmp_path):
    run = part(flags=[])
    run["invocations"] = [
        one | {"samples": {"elapsed_ns": [time] * 30}}
        for one, time in zip(run["invocations"] * 3, (40_000, 41_000, 42_000), strict=True)
    ]
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    log = tmp_path / "logs/cell.log"
    ended = subprocess.run(
        [sys.executable, "-c", DONE, json.dumps(run), str(tmp_path / "progress.json"), str(log)],
        env=plain | {"PYTHONPATH": str(Path(history.__file__).parents[2])},
        capture_output=True,
        check=True,
    )
    assert b"GFLOP/s \\xb1" in ended.stderr
    assert " GFLOP/s ±6.1%" in log.read_text(encoding="utf-8")


def test_whatever_fails_behind_a_run_is_told_and_costs_nothing(capfd):
    for error in (OSError(errno.ENOSPC, "no room"), UnicodeError("no letter"), KeyError("x")):
        with passing_over("the line"):
            raise error
    said = capfd.readouterr().err.splitlines()
    assert [line.split(": ", 1)[1] for line in said] == [
        "the line: no room; passed over",
        "the line: no letter; passed over",
        "the line: 'x'; passed over",
    ]


def test_a_folder_that_cannot_be_written_costs_nothing(tmp_path, capfd):
    (tmp_path / "in the way").write_text("")
    Progress(tmp_path / "in the way/progress.json", tmp_path / "in the way/log").tick("ice  a cell")
    said = capfd.readouterr().err.splitlines()
    assert "ice  a cell" in said
    assert sum("passed over" in line for line in said) == len(said) - 1 == 3
