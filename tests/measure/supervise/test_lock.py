"""Two measurements never overlap on one machine, and a killed one holds up nobody."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gemmgrid.measure.supervise.lock import measuring

PACKAGE = str(Path(__file__).resolve().parents[3] / "workflow")
HOLDER = """
import sys, time
from pathlib import Path
from gemmgrid.measure.supervise.lock import measuring
with measuring(lambda: None, Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(float(sys.argv[2]))
"""


def holder(path: Path, seconds: float) -> subprocess.Popen:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path), str(seconds)],
        env={**os.environ, "PYTHONPATH": PACKAGE},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_measurement_waits_and_says_so(tmp_path, capsys):
    path = tmp_path / "lock"
    process = holder(path, 1.0)
    looks = []
    with measuring(lambda: looks.append(time.monotonic()), path):
        process.wait(timeout=5)
        assert process.returncode == 0
    assert looks
    assert capsys.readouterr().err.count("waiting") == 1


def test_what_look_raises_ends_the_waiting(tmp_path):
    process = holder(tmp_path / "lock", 30)

    def gone() -> None:
        raise KeyboardInterrupt

    try:
        with pytest.raises(KeyboardInterrupt), measuring(gone, tmp_path / "lock"):
            pass
    finally:
        process.kill()


def test_a_killed_holder_holds_up_nobody(tmp_path):
    process = holder(tmp_path / "lock", 1000)
    process.send_signal(signal.SIGKILL)
    process.wait()
    with measuring(lambda: pytest.fail("it waited"), tmp_path / "lock"):
        pass


def test_a_file_of_another_user_is_enough(tmp_path):
    path = tmp_path / "lock"
    path.touch(mode=0o444)
    with measuring(lambda: None, path):
        assert path.exists()
