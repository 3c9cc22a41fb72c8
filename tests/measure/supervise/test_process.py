"""Processes under watch: how they ended, what they said, and that none outlives its watch."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from gemmgrid.measure.supervise import process


def run(program: str, folder: Path, deadline_s=20.0, memory=None, look=lambda: None):
    command = [sys.executable, "-c", program]
    return process.run(command, os.environ, folder, deadline_s, memory, look)


@pytest.mark.parametrize(
    ("program", "code", "signal"),
    [
        ("pass", 0, None),
        ("raise SystemExit(7)", 7, None),
        ("import os, signal; os.kill(os.getpid(), signal.SIGABRT)", None, "SIGABRT"),
        ("import ctypes; ctypes.string_at(0)", None, "SIGSEGV"),
    ],
)
def test_how_it_ended(tmp_path, program, code, signal):
    outcome = run(program, tmp_path)
    assert (outcome.exit_code, outcome.signal) == (code, signal)
    assert not outcome.timed_out
    assert not outcome.over_memory


def test_the_end_of_its_output_is_kept(tmp_path):
    program = "import sys; print('x' * 10000 + 'end'); print('wörds', file=sys.stderr)"
    outcome = run(program, tmp_path)
    assert outcome.stdout_tail.endswith("xend")
    assert len(outcome.stdout_tail) <= process.TAIL_BYTES
    assert outcome.stderr_tail == "wörds"


def test_time_is_up_for_its_children_too(tmp_path):
    program = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen(['sleep', '1000'])\n"
        "open('child', 'w').write(str(child.pid))\n"
        "time.sleep(1000)"
    )
    outcome = run(program, tmp_path, deadline_s=1.0)
    assert outcome.timed_out
    pid = int((tmp_path / "child").read_text())
    deadline = time.monotonic() + 5
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        if state == "Z":
            break
        time.sleep(0.05)
    else:
        assert not Path(f"/proc/{pid}").exists()


def test_memory_has_an_end(tmp_path):
    program = "import time; kept = bytearray(300 << 20); time.sleep(1000)"
    outcome = run(program, tmp_path, memory=200 << 20)
    assert outcome.over_memory
    assert outcome.signal == "SIGKILL"


def test_endless_output_does_not_fill_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "LARGEST_OUTPUT", 1 << 20)
    program = "while True: print('x' * 4000)"
    outcome = run(program, tmp_path, deadline_s=1.5)
    assert outcome.timed_out
    assert (tmp_path / "stdout").stat().st_blocks * 512 < 2 << 30


def test_an_interruption_ends_it(tmp_path):
    def interrupt() -> None:
        raise KeyboardInterrupt

    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run("import time; time.sleep(1000)", tmp_path, look=interrupt)
    assert time.monotonic() - start < 10


def test_a_missing_program_is_an_oserror(tmp_path):
    with pytest.raises(OSError, match="nowhere"):
        process.run(["/nowhere/python"], os.environ, tmp_path, 1.0, None, lambda: None)


@pytest.mark.parametrize("system", ["linux", "darwin"])
def test_memory_is_read_without_another_process(monkeypatch, system):
    """On macOS psutil asks the kernel; it does so here too."""
    own = psutil.Process()
    before = len(own.children())
    monkeypatch.setattr(sys, "platform", system)
    found = process.resident_bytes(os.getpid())
    assert found == pytest.approx(own.memory_info().rss, rel=0.05)
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert process.resident_bytes(gone.pid) is None
    assert len(own.children()) == before
