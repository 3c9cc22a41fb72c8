"""What is read is checked once, for all commands: whatever lies under results/, none is stopped."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from gemmgrid.__main__ import main
from gemmgrid.plan.change.stale import Latest
from gemmgrid.records import history
from gemmgrid.report.read.collect import collect
from tests.report import synthetic

CELL, BAD = synthetic.gemm(64), synthetic.gemm(128)
COMMANDS = ["summary", "compare", "tables", "bundle"]


def a_line(number: str | None = None) -> str:
    line = json.dumps(synthetic.run(BAD, order=7))
    return f"{line}\n" if number is None else line.replace('"order": 7', f'"order": {number}')


def place(path: Path, kind: str) -> None:
    """Something that is no history, or one with something in it that is no run."""
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(path.name)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "dangling link":
        path.symlink_to("nothing")
    elif kind == "marker":
        path.write_text(f"<<<<<<< HEAD\n{a_line()}", encoding="utf-8")
    else:
        path.write_text(a_line(kind), encoding="utf-8")


KINDS = {
    "pipe": "a named pipe, no file",
    "socket": "a socket, no file",
    "device": "a device, no file",
    "dangling link": "a link to nothing",
    "marker": "a git conflict marker",
    "1e999": "not a run: 1e999 is no number",
    "NaN": "not a run: NaN is no number",
    "-Infinity": "not a run: -Infinity is no number",
}


@pytest.mark.parametrize("kind", KINDS)
def test_no_command_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    results = tmp_path / "results"
    synthetic.write_machine(results, synthetic.Machine("machine-a"))
    good = synthetic.write_run(results, synthetic.run(CELL))
    bad = good.with_name(f"{BAD.name}.jsonl")
    monkeypatch.chdir(good.parent)  # a socket's path must be short
    place(bad, kind)
    monkeypatch.chdir(tmp_path)
    for command in COMMANDS:
        assert main([command, "--results", "results"]) == 0, command
    problems = collect(Path("results")).problems
    assert [one.file for one in problems] == [f"results/machine-a/numpy-openblas/{bad.name}"]
    assert KINDS[kind] in problems[0].problem
    assert KINDS[kind] in (results / "tables/problems.csv").read_text(encoding="utf-8")
    assert (Latest()[str(bad)] is None) == (kind != "marker")
    capsys.readouterr()


@pytest.mark.parametrize("name", ["machine-a/machine.json", ".plan/plan.jsonl"])
def test_no_pipe_is_waited_for(tmp_path: Path, name: str) -> None:
    synthetic.write_run(tmp_path, synthetic.run(CELL))
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    os.mkfifo(path)
    found = collect(tmp_path)
    assert len(found.runs) == 1
    told = [one.problem for one in found.problems if one.file == path.as_posix()]
    assert told == ["cannot be read: a named pipe, no file"]


def test_runs_that_a_merge_left_out_of_order_are_compared_by_their_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    results = Path("results")
    synthetic.write_machine(results, synthetic.Machine("machine-a"))
    for moment, gflops in (("11-30", 100.0), ("12-02", 50.0), ("12-01", 100.0)):
        at = f"2026-{moment}T12:00:00.000000Z"
        kernel = {"host": {"kernel": moment}, "device": None, "host_hash": moment}
        run = synthetic.run(CELL, gflops=gflops, started_at=at, ended_at=at, id=moment)
        synthetic.write_run(results, run | {"context": run["context"] | kernel})
    found = collect(results)
    assert [row["id"] for row in found.runs] == ["11-30", "12-01", "12-02"]
    assert found.cells[0]["gflops"] == pytest.approx(50, rel=0.05)
    assert len(found.problems) == 1 and "line 2 is the latest" in found.problems[0].problem
    path = Path(f"results/machine-a/numpy-openblas/{CELL.name}.jsonl")
    assert history.latest(path) == history.read(path).latest
