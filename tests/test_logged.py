"""A command's standard error is kept in a file, and everything else is the command's own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = str(Path(__file__).parents[1] / "workflow")
PROGRAM = """
import os, subprocess, sys
print("first", file=sys.stderr)
os.write(2, b"second\\n")
subprocess.run(["sh", "-c", "echo third >&2"])
print("out", sys.argv[1:])
if sys.argv[1:] == ["raise"]:
    raise ValueError("what went wrong")
if sys.argv[1:] == ["kill"]:
    os.kill(os.getpid(), 15)
sys.exit(int(sys.argv[1]) if sys.argv[1:2] and sys.argv[1].isdigit() else 0)
"""
START = """
import runpy, sys
from pathlib import Path
from gemmgrid.logged import keeping_stderr
with keeping_stderr(Path(sys.argv.pop(1))):
    runpy.run_module("program", run_name="__main__", alter_sys=True)
"""


def run(folder: Path, *arguments: str, log: str = "deep/a.log") -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(PROGRAM)
    return subprocess.run(
        [sys.executable, "-c", START, str(folder / log), *arguments],
        env={**os.environ, "PYTHONPATH": f"{PACKAGE}:{folder}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("code", [0, 3])
def test_what_is_said_goes_both_ways_in_order(tmp_path, code):
    done = run(tmp_path, str(code))
    assert done.returncode == code
    assert done.stdout == f"out ['{code}']\n"
    assert done.stderr == "first\nsecond\nthird\n"
    assert (tmp_path / "deep/a.log").read_text() == done.stderr


def test_an_error_is_told_and_kept(tmp_path):
    done = run(tmp_path, "raise")
    assert done.returncode == 1
    assert done.stderr.endswith("ValueError: what went wrong\n")
    assert (tmp_path / "deep/a.log").read_text() == done.stderr


def test_a_signal_ends_it_as_it_would_the_command(tmp_path):
    assert run(tmp_path, "kill").returncode == -signal.SIGTERM


def test_a_log_that_cannot_be_written_costs_nothing(tmp_path):
    (tmp_path / "deep").write_text("in the way")
    done = run(tmp_path, "0")
    assert done.returncode == 0
    assert "cannot be written" in done.stderr and done.stderr.endswith("first\nsecond\nthird\n")


def test_the_log_is_of_the_last_run(tmp_path):
    run(tmp_path, "raise")
    run(tmp_path, "0")
    assert (tmp_path / "deep/a.log").read_text() == "first\nsecond\nthird\n"
