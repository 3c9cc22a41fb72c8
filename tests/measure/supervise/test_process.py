"""Processes under watch: how they ended, what they said, and that none outlives its watch."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from gemmgrid.measure.supervise import process
from gemmgrid.measure.supervise.process import Outcome


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


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (
            Outcome(exit_code=2, stdout_tail="hello\nFATAL ERROR: cannot load it"),
            "exit code 2 (stage: import): FATAL ERROR: cannot load it",
        ),
        (
            Outcome(exit_code=1, stdout_tail="banner", stderr_tail="Traceback\nOSError: no"),
            "exit code 1 (stage: import): OSError: no; banner",
        ),
        (Outcome(exit_code=3), "exit code 3 (stage: import): no message"),
        (
            Outcome(signal="SIGABRT", stderr_tail="terminate called"),
            "ended by SIGABRT (stage: import): terminate called",
        ),
        (
            Outcome(
                signal="SIGINT",
                stderr_tail="pthread_create failed: Resource temporarily unavailable\nTraceback",
            ),
            "ended by SIGINT (stage: import): pthread_create failed: Resource temporarily "
            "unavailable",
        ),
        (
            Outcome(timed_out=True, seconds=7, stderr_tail="waiting for node 2"),
            "no answer after 7 s (stage: import): waiting for node 2",
        ),
    ],
)
def test_the_reason_holds_the_last_words_of_both_streams(outcome, reason):
    assert outcome.died("import", False, None)[1] == reason


def refuse(monkeypatch, times: int):
    """From now on the system has that many threads left for this process, and then none."""
    start = threading.Thread.start
    left = iter(range(times))

    def limited(thread):
        if next(left, None) is None:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    monkeypatch.setattr(resource, "getrlimit", lambda which: (9, 9))


def test_a_hang_names_what_the_system_refuses_meanwhile(tmp_path, monkeypatch):
    """Under `prlimit --nproc=9` a library waits for a thread that it never got."""
    refuse(monkeypatch, times=1)
    outcome = run("import time; time.sleep(1000)", tmp_path, deadline_s=0.3)
    status, reason = outcome.died("import", False, None)
    assert status == "timeout"
    assert reason.endswith("the system refused a further process or thread (ulimit -u: 9)")


def test_a_watch_that_gets_no_thread_says_so_and_leaves_no_process(tmp_path, monkeypatch):
    refuse(monkeypatch, times=0)
    before = psutil.Process().children()
    with pytest.raises(BlockingIOError, match="refused a further process or thread"):
        run("open('pid', 'w').write('x')\nimport time; time.sleep(1000)", tmp_path)
    assert psutil.Process().children() == before
