"""Files are read only where they are files, and written whole or not at all."""

from __future__ import annotations

import os
import socket
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gemmgrid.records import files


def test_a_file_is_created_once(tmp_path):
    path = tmp_path / "deep/machine.json"
    assert files.create_atomically(path, b"first")
    assert not files.create_atomically(path, b"second")
    assert path.read_bytes() == b"first"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert list(path.parent.iterdir()) == [path]


def test_of_many_who_create_a_file_one_does(tmp_path):
    path = tmp_path / "machine.json"
    start = threading.Barrier(8)

    def create(number):
        start.wait()
        return files.create_atomically(path, str(number).encode() * 10_000)

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
    assert files.create_atomically(path, b"first")
    assert not files.create_atomically(path, b"second")
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("write", [files.write_atomically, files.create_atomically])
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
    files.write_atomically(path, b"later")
    assert (reader.read(), path.read_bytes()) == (b"earlier", b"later")
    reader.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
@pytest.mark.parametrize("write", [files.write_atomically, files.create_atomically])
def test_the_umask_is_honoured(tmp_path, write, mask, mode):
    before = os.umask(mask)
    try:
        write(tmp_path / "a.json", b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.json").stat().st_mode) == mode


def test_in_a_groups_folder_the_file_is_the_groups(tmp_path):
    if os.geteuid() == 0:
        os.chown(tmp_path, 0, 12345)
    tmp_path.chmod(0o2775)
    files.write_atomically(tmp_path / "a.json", b"x")
    assert (tmp_path / "a.json").stat().st_gid == tmp_path.stat().st_gid


def test_a_socket_is_no_file(tmp_path):
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        with pytest.raises(files.NotAFileError, match="a socket, no file"):
            files.read_regular(path)


def test_a_link_to_a_file_is_read(tmp_path):
    (tmp_path / "a").write_bytes(b"x")
    (tmp_path / "b").symlink_to("a")
    assert files.read_regular(tmp_path / "b") == b"x"
