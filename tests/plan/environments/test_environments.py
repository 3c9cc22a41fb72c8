"""Environments of the venv way, built for real with uv from packages made here."""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from gemmgrid.plan.config.registry import load_registry
from gemmgrid.plan.environments import build as building
from gemmgrid.plan.environments import interpreter, marker_path
from tests.plan.conftest import ROOT


def make_wheel(folder: Path, name: str, version: str, requires: str = "") -> None:
    """A wheel of one module that knows its version; enough for uv to resolve and install."""
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(
            f"{name}.py", f"version = {version!r}\n\n\ndef main():\n    print(version)\n"
        )
        wheel.writestr(f"{info}/METADATA", metadata)
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/entry_points.txt", f"[console_scripts]\n{name} = {name}:main\n")
        wheel.writestr(f"{info}/RECORD", "")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A project with two tiny environments, whose packages come from a folder beside it."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for version in ("1.0", "2.0"):
        make_wheel(wheels, "ggtiny", version)
    for name in list(os.environ):
        if name.startswith(("UV_", "PIP_")) and name != "UV_CACHE_DIR":
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    monkeypatch.setenv("UV_OFFLINE", "1")
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs/one.txt").write_text("ggtiny==1.0\n")
    (tmp_path / "envs/two.txt").write_text("ggtiny==2.0\n")
    return tmp_path


def command(folder: Path, name: str, *more: str) -> list[str]:
    return [
        *(sys.executable, "-m", "gemmgrid", "build", name),
        *("--envs", str(folder / "envs"), "--into", str(folder / ".envs")),
        *("--marker", str(folder / f".envs/{name}.json"), *more),
    ]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "workflow")}


def build(folder: Path, name: str, *more: str) -> dict:
    """Build by the command that the workflow uses; returns the marker."""
    done = subprocess.run(
        command(folder, name, *more), env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    marker = json.loads((folder / f".envs/{name}.json").read_text())
    return {**marker, "said": done.stderr}


def version_in(folder: Path, name: str) -> str:
    python = folder / f".envs/{name}/bin/python"
    code = "import ggtiny, sys; print(ggtiny.version, sys.prefix)"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    version, prefix = done.stdout.split(maxsplit=1)
    assert prefix.strip() == str(folder / f".envs/{name}")
    return version


def test_a_build_and_its_marker(folder):
    marker = build(folder, "one")
    assert (
        marker.items()
        >= {
            "status": "ok",
            "name": "one",
            "prefix": str(folder / ".envs/one"),
            "python": ".".join(map(str, sys.version_info[:3])),
            "packages": [{"name": "ggtiny", "version": "1.0"}],
            "reason": None,
        }.items()
    )
    assert marker["seconds"] > 0 and marker["built_at"].endswith("Z")
    assert version_in(folder, "one") == "1.0"
    assert "environment one: built in" in marker["said"]
    left = {path.name for path in (folder / ".envs").iterdir()}
    assert left == {"one", "one.json", ".one.lock"}


def test_a_real_numpy_from_where_the_user_gets_packages(tmp_path):
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs/numpy.txt").write_text("numpy==2.4.6\n")
    marker = build(tmp_path, "numpy")
    assert (marker["status"], marker["packages"]) == (
        "ok",
        [{"name": "numpy", "version": "2.4.6"}],
    )
    code = "import numpy, sys; print(numpy.__file__, numpy.matmul([[2]], [[3]])[0, 0])"
    python = tmp_path / ".envs/numpy/bin/python"
    file, product = subprocess.check_output([python, "-c", code], text=True).split()
    assert file.startswith(str(tmp_path / ".envs/numpy/lib")) and product == "6"


def test_the_scripts_of_a_renamed_environment_start(folder):
    build(folder, "one")
    assert subprocess.check_output([folder / ".envs/one/bin/ggtiny"], text=True) == "1.0\n"


def test_only_what_changed_is_built_again(folder):
    first, second = build(folder, "one"), build(folder, "two")
    stamp = (folder / ".envs/one/gemmgrid.json").stat().st_mtime_ns
    again = build(folder, "one")
    assert again["said"] == "environment one: ready\n"
    assert (again["built_at"], again["seconds"]) == (first["built_at"], first["seconds"])
    assert (folder / ".envs/one/gemmgrid.json").stat().st_mtime_ns == stamp

    (folder / "envs/one.txt").write_text("# a comment changes nothing\n\nggtiny==1.0  # nor this\n")
    assert build(folder, "one")["built_at"] == first["built_at"]

    (folder / "envs/one.txt").write_text("ggtiny==2.0\n")
    changed = build(folder, "one")
    assert changed["built_at"] != first["built_at"]
    assert changed["lock_hash"] != first["lock_hash"]
    assert version_in(folder, "one") == "2.0"
    assert build(folder, "two")["built_at"] == second["built_at"]


def test_a_lost_marker_does_not_build_again(folder):
    first = build(folder, "one")
    (folder / ".envs/one.json").unlink()
    assert build(folder, "one")["built_at"] == first["built_at"]


def test_a_broken_environment_is_built_again(folder):
    first = build(folder, "one")
    (folder / ".envs/one/bin/python").unlink()
    assert build(folder, "one")["built_at"] != first["built_at"]
    assert version_in(folder, "one") == "1.0"


def test_an_environment_of_a_moved_project_is_built_again(folder):
    first = build(folder, "one")
    moved = folder / "moved"
    moved.mkdir()
    for name in ("envs", ".envs"):
        (folder / name).rename(moved / name)
    assert build(moved, "one")["built_at"] != first["built_at"]
    assert version_in(moved, "one") == "1.0"


def test_a_folder_that_nobody_vouches_for_is_replaced(folder):
    (folder / ".envs/one/lib").mkdir(parents=True)
    assert build(folder, "one")["status"] == "ok"
    assert version_in(folder, "one") == "1.0"


def test_a_failed_build_says_why_and_spares_the_rest(folder):
    build(folder, "one")
    (folder / "envs/one.txt").write_text("ggtiny==9.9\n")
    marker = build(folder, "one")
    assert marker["status"] == "failed" and marker["packages"] == []
    assert "ggtiny==9.9" in marker["reason"] and "\n" not in marker["reason"]
    assert "ggtiny==9.9" in marker["log_tail"]
    assert "environment one: failed: " in marker["said"]
    assert version_in(folder, "one") == "1.0"  # what was there before stays
    (folder / "envs/one.txt").write_text("ggtiny==1.0\n")
    assert build(folder, "one")["status"] == "ok"


@pytest.mark.parametrize("name", ["absent", "../outside", "a b"])
def test_an_environment_that_is_not_described(folder, name):
    marker = building.build(name, folder / "envs", folder / ".envs", out=io.StringIO())
    assert marker["status"] == "failed"
    assert ("cannot be read" if name == "absent" else "is not a name") in marker["reason"]


@pytest.fixture
def silent(folder, monkeypatch):
    """An index that takes every connection and never answers, so that a build lasts."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}/"
        monkeypatch.setenv("UV_OFFLINE", "0")
        monkeypatch.setenv("UV_FIND_LINKS", address)
        yield address


def test_a_build_that_takes_too_long(folder, silent):
    marker = build(folder, "one", "--limit-s", "1")
    assert (marker["status"], marker["reason"]) == ("failed", "not finished within its time limit")
    assert not list((folder / ".envs").glob(".building*"))


def test_without_uv(folder, monkeypatch):
    monkeypatch.setattr(building.uv, "command", lambda: [str(folder / "no-uv")])
    marker = building.build("one", folder / "envs", folder / ".envs", out=io.StringIO())
    assert marker["status"] == "failed" and "no-uv" in marker["reason"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_build_leaves_no_half_environment(folder, silent, monkeypatch, number):
    process = subprocess.Popen(
        command(folder, "one"),
        env=environment(),
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        # A shell's background job ignores Ctrl-C, and so would all that it starts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    deadline = time.monotonic() + 300
    while not list((folder / ".envs").glob(".building-one-*/bin/python")):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)
    os.killpg(process.pid, number)
    process.wait(300)
    assert process.returncode != 0
    assert not (folder / ".envs/one").exists() and not (folder / ".envs/one.json").exists()
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.delenv("UV_FIND_LINKS")
    assert build(folder, "one")["status"] == "ok"
    assert not list((folder / ".envs").glob(".building*"))
    assert version_in(folder, "one") == "1.0"


def test_two_builds_of_one_environment_do_not_meet(folder):
    both = [
        subprocess.Popen(command(folder, "one"), env=environment(), stderr=subprocess.DEVNULL)
        for _ in range(2)
    ]
    assert [process.wait(60) for process in both] == [0, 0]
    assert version_in(folder, "one") == "1.0"
    assert not list((folder / ".envs").glob(".building*"))


def test_progress_on_a_terminal_rewrites_its_line(folder):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    out = Terminal()
    progress = building.Progress("one", out)
    progress.show("building …")
    progress.show("building …")
    progress.end("built")
    assert out.getvalue().count("\n") == 1
    assert "environment one: building … 0 s" in out.getvalue()


def test_interpreters(folder):
    (folder / "config").mkdir()
    registry = (ROOT / "config/backends.yaml").read_text()
    own = "own:\n  adapter: numpy\n  python: /opt/site/bin/python\n  platforms: [linux-x86_64]\n"
    (folder / "config/backends.yaml").write_text(f"{registry}\n{own}  dtypes: [float32]\n")
    backends = load_registry(folder)
    torch = backends["torch-cpu"]
    assert interpreter(torch, "venv", folder) == str(folder / ".envs/torch-cpu/bin/python")
    assert interpreter(torch, "conda", folder) == "python"
    shared = backends["cblas-accelerate"]
    assert interpreter(shared, "venv", folder).endswith(".envs/numpy-accelerate/bin/python")
    for deploy in ("venv", "conda", "none"):
        assert interpreter(backends["own"], deploy, folder) == "/opt/site/bin/python"
    assert marker_path("torch-cpu", folder) == folder / ".envs/torch-cpu.json"
