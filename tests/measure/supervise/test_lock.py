"""Two measurements never overlap on one machine, and a killed one holds up nobody."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gemmgrid.measure.supervise import lock
from gemmgrid.measure.supervise.lock import LockError, measuring

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


def test_any_user_can_open_it_whatever_the_umask(tmp_path):
    path = tmp_path / "lock"
    before = os.umask(0o077)
    try:
        with measuring(lambda: None, path):
            assert stat.S_IMODE(path.stat().st_mode) == 0o644
    finally:
        os.umask(before)


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_no_plain_file_is_named_and_not_waited_for(tmp_path, kind):
    path = tmp_path / "lock"
    if kind == "link":
        path.symlink_to(tmp_path / "nowhere")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    with (
        pytest.raises(LockError, match=f"{path}.*remove what is in the way"),
        measuring(None, path),
    ):
        pass
    assert not (tmp_path / "nowhere").exists()


def test_where_the_shared_folder_cannot_be_written_the_users_own_serves(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "SHARED", tmp_path / "absent")
    monkeypatch.setattr(lock, "gettempdir", lambda: str(tmp_path))
    with measuring(lambda: None):
        assert (tmp_path / lock.NAME).exists()
    monkeypatch.setattr(lock, "gettempdir", lambda: str(tmp_path / "absent too, by name"))
    with pytest.raises(LockError, match="TMPDIR"), measuring(lambda: None):
        pass
