"""Nothing is lost: appending is all or nothing, and reading never fails on a bad file."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
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
        (json.dumps(a_run(status="fine")).encode(), "status is 'fine'"),
        (json.dumps(a_run(cell={"routine": "gemm"})).encode(), "not a cell"),
        (json.dumps(a_run(invocations=[3])).encode(), "not an object"),
        (b"[" * 100_000, "not JSON"),
        (b"NaN", "not a run: NaN is no number"),
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


def day(number: int) -> str:
    return f"2026-11-{number:02}T12:00:00.000000Z"


def lines(*runs):
    return "".join(json.dumps(run) + "\n" for run in runs)


def dated(name: str, number: int, **more):
    return a_run(id=name, started_at=day(number), ended_at=day(number), **more)


@pytest.mark.parametrize("dumps", [json.dumps, history.dumps])
@pytest.mark.parametrize("order", [(1, 3, 2), (3, 1, 2), (2, 3, 1), (3, 2, 1)])
def test_runs_are_taken_in_the_order_of_their_time(tmp_path, order, dumps):
    path = tmp_path / "cell.jsonl"
    path.write_text("".join(dumps(dated(str(n), n)) + "\n" for n in order), encoding="utf-8")
    read = history.read(path)
    assert [run["id"] for run in read.runs] == ["1", "2", "3"]
    assert history.latest(path)["id"] == "3"
    assert read.problems == []
    (note,) = read.notes
    assert "a merge or a clock" in note["problem"]
    assert f"line {order.index(3) + 1} is the latest" in note["problem"]


def test_what_ended_last_is_the_latest_whenever_it_began(tmp_path):
    path = tmp_path / "cell.jsonl"
    spread_over_rounds = a_run(id="long", started_at=day(1), ended_at=day(3))
    path.write_text(lines(dated("short", 2), spread_over_rounds), encoding="utf-8")
    assert history.read(path).latest["id"] == history.latest(path)["id"] == "long"
    assert history.read(path).notes == []
    path.write_text(lines(dated("b", 2), a_run(id="a", started_at=day(4), ended_at=None)))
    assert history.read(path).latest["id"] == history.latest(path)["id"] == "a"


def test_a_clock_that_was_set_back_hides_no_run(tmp_path):
    path = tmp_path / "cell.jsonl"
    for name, number in (("1", 1), ("ahead", 20), ("2", 2), ("3", 3), ("4", 25)):
        history.append(path, dated(name, number))
        assert history.read(path).latest["id"] == history.latest(path)["id"] == name
    read = history.read(path)
    assert [run["id"] for run in read.runs] == ["1", "ahead", "2", "3", "4"]
    assert [note["line"] for note in read.notes] == [3]
    assert "the clock was set back" in read.notes[0]["problem"]


def test_runs_that_follow_stay_behind_in_any_order_of_the_lines(tmp_path):
    path = tmp_path / "cell.jsonl"
    runs = [dated("ahead", 20), dated("2", 2, follows="ahead"), dated("3", 3, follows="2")]
    for shuffled in (runs, runs[::-1], [runs[1], runs[0], runs[2]]):
        path.write_text(lines(*shuffled), encoding="utf-8")
        assert history.latest(path)["id"] == "3"
        assert [run["id"] for run in history.read(path).runs] == ["ahead", "2", "3"]


def test_a_run_that_follows_itself_or_nothing_is_read(tmp_path):
    path = tmp_path / "cell.jsonl"
    path.write_text(lines(dated("1", 1, follows="1"), dated("2", 2, follows="gone")))
    assert [run["id"] for run in history.read(path).runs] == ["1", "2"]


def test_the_latest_is_looked_for_in_the_tail(tmp_path):
    path = tmp_path / "cell.jsonl"
    runs = [dated(str(n), n, padding="x" * 1000) for n in (9, 1, 2, 4, 3)]

    def newest(tail):
        return json.loads(next(history.newest_lines(path, tail)))["id"]

    path.write_text(lines(*runs), encoding="utf-8")
    assert history.latest(path)["id"] == newest(1 << 20) == "9"
    assert newest(3000) == "4"
    assert newest(500) == "3"  # half a line is none: more is read
    path.write_text(lines(*runs) + "x" * 5000 + "\n", encoding="utf-8")
    assert history.latest(path)["id"] == "9"
    path.write_text("no run\n" * 10, encoding="utf-8")
    assert history.latest(path) is None
    assert set(history.newest_lines(path, 8)) == {b"no run"}


def test_a_line_that_stands_twice_counts_once(tmp_path):
    path = tmp_path / "cell.jsonl"
    path.write_text(lines(a_run(), a_run(), a_run(id="2")), encoding="utf-8")
    read = history.read(path)
    assert [run["id"] for run in read.runs] == ["1", "2"]
    assert read.notes == [{"line": 2, "problem": "stands twice: counted once"}]


def test_marks_of_a_merge_are_named(tmp_path):
    path = tmp_path / "cell.jsonl"
    path.write_text(f"<<<<<<< HEAD\n{lines(a_run())}=======\n>>>>>>> other\n", encoding="utf-8")
    read = history.read(path)
    assert len(read.runs) == 1
    assert [problem["line"] for problem in read.problems] == [1, 3, 4]
    assert all("git conflict marker" in problem["problem"] for problem in read.problems)


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "-Infinity"])
def test_a_number_that_is_none_makes_no_run(tmp_path, number):
    path = tmp_path / "cell.jsonl"
    run = a_run(invocations=[{"index": 0, "round": 1, "status": "ok", "import_s": 7.5}])
    path.write_text(lines(run).replace("7.5", number), encoding="utf-8")
    read = history.read(path)
    assert read.runs == [] and history.latest(path) is None
    assert read.problems[0]["problem"].startswith("not a run: ")
    assert "is no number" in read.problems[0]["problem"]


def test_a_value_of_a_wrong_type_is_unknown_and_noted(tmp_path):
    path = tmp_path / "cell.jsonl"
    history.append(path, a_run(library="OpenBLAS", flags=["noisy", 3], order=1.5))
    read = history.read(path)
    (run,) = read.runs
    assert (run["library"], run["flags"], run["order"]) == (None, ["noisy"], None)
    assert [note["problem"] for note in read.notes] == [
        "library is 'OpenBLAS', not an object; read as unknown",
        "flags.1 is 3, not text; read as unknown",
        "order is 1.5, not a whole number; read as unknown",
    ]
    assert history.latest(path) == run


@pytest.mark.parametrize("kind", ["pipe", "device", "link", "folder"])
def test_what_is_no_file_is_a_problem_at_once(tmp_path, kind):
    path = tmp_path / "cell.jsonl"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero" if kind == "device" else tmp_path / "nothing")
    words = {"pipe": "a named pipe", "device": "a device", "folder": "a folder"}
    told = history.read(path).problems[0]["problem"]
    assert told.startswith("cannot be read: ") and words.get(kind, "a link to nothing") in told
    assert history.latest(path) is None
    if kind != "link":
        with pytest.raises(OSError):
            history.append(path, a_run())
