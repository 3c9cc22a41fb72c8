"""Nothing is lost: appending is all or nothing, and reading never fails on a bad file."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gemmgrid.records import history
from gemmgrid.records.run import SCHEMA_VERSION

CELL = {"routine": "dot", "dtype": "float32", "shape": [4], "threads": 1}


def a_run(**changes):
    return {
        "schema": SCHEMA_VERSION,
        "id": "1",
        "started_at": "2026-01-01T00:00:00.000000Z",
        "machine": "m",
        "backend": "b",
        "cell": CELL,
        "status": "ok",
        "invocations": [],
    } | changes


def test_runs_come_back_oldest_first(tmp_path):
    path = tmp_path / "m/b/cell.jsonl"
    for number in range(3):
        history.append(path, a_run(id=str(number)))
    read = history.read(path)
    assert [run["id"] for run in read.runs] == ["0", "1", "2"]
    assert read.latest["id"] == "2"
    assert read.problems == []


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"schema": 1, "id": "x", "sta', "not JSON"),
        (b"\xff\xfe\x00\x01", "not "),
        (b"[1, 2]", "not list"),
        (json.dumps(a_run(schema=SCHEMA_VERSION + 1)).encode(), "newer"),
        (json.dumps(a_run(schema="1")).encode(), "schema version"),
        (json.dumps(a_run(status="fine")).encode(), "status 'fine'"),
        (json.dumps(a_run(cell={"routine": "gemm"})).encode(), "not a cell"),
        (json.dumps(a_run(invocations=[3])).encode(), "not an object"),
        (b"[" * 100_000, "not JSON"),
        (b"NaN", "not float"),
        (json.dumps(a_run(cell=CELL | {"options": {"alpha": [1]}})).encode(), "not a run"),
        (json.dumps(a_run()).replace('"threads": 1', '"threads": 1' + "0" * 5000).encode(), "not"),
        (
            json.dumps(a_run(cell=CELL | {"options": {"alpha": 7}})).replace("7", "1e999").encode(),
            "not a run",
        ),
    ],
)
def test_bad_lines_are_named_and_left_alone(tmp_path, line, problem):
    path = tmp_path / "cell.jsonl"
    history.append(path, a_run(id="good"))
    content = path.read_bytes() + line + b"\n"
    path.write_bytes(content)
    read = history.read(path)
    assert [run["id"] for run in read.runs] == ["good"]
    assert len(read.problems) == 1
    assert read.problems[0]["line"] == 2
    assert problem in read.problems[0]["problem"]
    assert path.read_bytes() == content


def test_appending_after_a_truncated_line_keeps_every_byte(tmp_path):
    path = tmp_path / "cell.jsonl"
    path.write_bytes(b'{"schema": 1, "trunc')
    history.append(path, a_run(id="new"))
    assert path.read_bytes().startswith(b'{"schema": 1, "trunc\n')
    assert [run["id"] for run in history.read(path).runs] == ["new"]


def test_missing_and_empty_files_are_problems_not_errors(tmp_path):
    assert "cannot be read" in history.read(tmp_path / "none.jsonl").problems[0]["problem"]
    (tmp_path / "empty.jsonl").touch()
    assert history.read(tmp_path / "empty.jsonl").problems[0]["problem"] == "empty"


def test_not_a_number_is_refused_before_anything_is_written(tmp_path):
    path = tmp_path / "cell.jsonl"
    history.append(path, a_run())
    before = path.read_bytes()
    with pytest.raises(ValueError):
        history.append(path, a_run(reason=float("nan")))
    assert path.read_bytes() == before


def test_a_full_disk_leaves_the_history_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "cell.jsonl"
    history.append(path, a_run())
    before = path.read_bytes()

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        history.append(path, a_run(id="2"))
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


APPENDER = """
import sys
import threading
from pathlib import Path
from gemmgrid.records import history
run = eval(sys.argv[2])
number = 0
while True:
    history.append(Path(sys.argv[1]), run | {"id": str(number)})
    print(number, flush=True)
    number += 1
"""


def test_a_kill_at_any_moment_loses_no_earlier_run(tmp_path):
    path = tmp_path / "cell.jsonl"
    package = Path(history.__file__).parents[2]
    for _ in range(5):
        process = subprocess.Popen(
            [sys.executable, "-c", APPENDER, str(path), repr(a_run(padding="x" * 100_000))],
            env={**os.environ, "PYTHONPATH": str(package)},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout.readline()
        time.sleep(0.15)
        process.send_signal(signal.SIGKILL)
        said = process.stdout.read().split()
        process.wait()
        read = history.read(path)
        assert read.problems == []
        assert len(read.runs) >= len(said)
        path.unlink()


def test_a_file_is_created_once(tmp_path):
    path = tmp_path / "deep/machine.json"
    assert history.create_atomically(path, b"first")
    assert not history.create_atomically(path, b"second")
    assert path.read_bytes() == b"first"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert list(path.parent.iterdir()) == [path]


def test_of_many_who_create_a_file_one_does(tmp_path):
    path = tmp_path / "machine.json"
    start = threading.Barrier(8)

    def create(number):
        start.wait()
        return history.create_atomically(path, str(number).encode() * 10_000)

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(create, range(8)))
    assert made.count(True) == 1
    assert path.read_bytes() == str(made.index(True)).encode() * 10_000
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_system_without_hard_links(tmp_path, monkeypatch):
    def refused(self, target):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refused)
    path = tmp_path / "machine.json"
    assert history.create_atomically(path, b"first")
    assert not history.create_atomically(path, b"second")
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("write", [history.write_atomically, history.create_atomically])
def test_a_full_disk_leaves_no_half_file(tmp_path, monkeypatch, write):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write(tmp_path / "machine.json", b"content")
    assert list(tmp_path.iterdir()) == []


def test_writing_replaces_the_file_and_nothing_beside_it(tmp_path):
    path = tmp_path / ("x" * 250 + ".json")  # with a suffix of its own, too long for a name
    path.write_bytes(b"earlier")
    reader = path.open("rb")
    history.write_atomically(path, b"later")
    assert (reader.read(), path.read_bytes()) == (b"earlier", b"later")
    reader.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert list(tmp_path.iterdir()) == [path]
