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

from gemmgrid.measure.supervise.progress import Progress
from gemmgrid.records import history

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


def test_a_folder_that_cannot_be_written_costs_nothing(tmp_path, capfd):
    (tmp_path / "in the way").write_text("")
    Progress(tmp_path / "in the way/progress.json", tmp_path / "in the way/log").tick("ice  a cell")
    said = capfd.readouterr().err.splitlines()
    assert "ice  a cell" in said
    assert sum("passed over" in line for line in said) == len(said) - 1 == 3
