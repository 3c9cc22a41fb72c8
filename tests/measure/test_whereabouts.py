"""Whether a run belongs to the machine whose name it carries, and who writes machine.json."""

from __future__ import annotations

import copy
import json
import threading

import machine_trees as trees
import pytest

from gemmgrid.measure import machine, whereabouts
from gemmgrid.measure.whereabouts import Whereabouts

H200 = {"name": "NVIDIA H200", "memory_bytes": 150 << 30, "driver": "580.1"}
A100 = {"name": "NVIDIA A100", "memory_bytes": 80 << 30, "driver": "580.1"}


@pytest.fixture
def at(tmp_path, monkeypatch):
    """Whereabouts of a process on recorded hardware."""
    monkeypatch.setattr(whereabouts, "_visible_gpu", lambda device: 0)
    intel = machine.facts(trees.sapphire_rapids(tmp_path / "intel"), "x86_64")
    amd = machine.facts(trees.rome(tmp_path / "amd"), "x86_64")

    def look(kind="intel", device="cpu", gpus=None, **changed):
        facts = copy.deepcopy(intel if kind == "intel" else amd) | changed
        facts["gpus"] = gpus or []
        monkeypatch.setattr(machine, "facts", lambda: facts)
        return Whereabouts(device)

    return look


def test_without_a_file_everybody_belongs(at, tmp_path):
    assert at().stranger_to(tmp_path / "results/ice") is None


def test_the_first_run_writes_the_file(at, tmp_path):
    folder = tmp_path / "results/ice"
    here = at()
    assert here.write(folder) is None
    assert json.loads((folder / "machine.json").read_text()) == here.facts
    assert [file.name for file in folder.iterdir()] == ["machine.json"]


def test_the_same_hardware_belongs_and_brings_the_file_up_to_date(at, tmp_path):
    path = tmp_path / "machine.json"
    at().write(tmp_path)
    before = path.stat()
    assert at(recorded_at="later").write(tmp_path) is None
    assert path.stat().st_ino == before.st_ino  # the time alone is no news
    again = at(kernel="6.9.0")
    assert again.stranger_to(tmp_path) is None
    assert again.write(tmp_path) is None
    assert json.loads(path.read_text())["kernel"] == "6.9.0"


def test_other_hardware_is_a_stranger_and_leaves_the_file_alone(at, tmp_path):
    path = tmp_path / "machine.json"
    at("intel").write(tmp_path)
    content = path.read_bytes()
    here = at("amd")
    reason = f"this is other hardware than {path} describes"
    assert here.stranger_to(tmp_path) == reason
    assert here.write(tmp_path) == reason
    assert path.read_bytes() == content


def test_another_gpu_is_other_hardware_for_a_gpu_cell(at, tmp_path):
    at(device="cuda", gpus=[H200]).write(tmp_path)
    assert at(device="cuda", gpus=[H200]).stranger_to(tmp_path) is None
    assert at(device="cuda", gpus=[A100]).stranger_to(tmp_path)
    assert at(device="cpu", gpus=[A100]).stranger_to(tmp_path) is None


def test_a_gpu_where_none_was_known_is_none_of_another_kind(at, tmp_path):
    at().write(tmp_path)
    assert at(device="cuda", gpus=[H200]).write(tmp_path) is None
    assert json.loads((tmp_path / "machine.json").read_text())["gpus"] == [H200]


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[]", b"7", b"null", b'{"cpu": 7}'])
def test_a_file_that_cannot_be_read_is_said_and_left_alone(at, tmp_path, content):
    path = tmp_path / "machine.json"
    path.write_bytes(content)
    here = at()
    for told in (here.stranger_to(tmp_path), here.write(tmp_path)):
        assert told.startswith(f"{path} cannot be read: ")
    assert path.read_bytes() == content


def test_of_two_nodes_that_come_first_at_once_one_is_the_machine(at, tmp_path):
    nodes = [at("intel"), at("amd")] * 4
    told: list[str | None] = []
    start = threading.Barrier(len(nodes))

    def write(node):
        start.wait()
        told.append(node.write(tmp_path))

    threads = [threading.Thread(target=write, args=[node]) for node in nodes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    written = json.loads((tmp_path / "machine.json").read_text())
    assert written in [node.facts for node in nodes[:2]]
    other = f"this is other hardware than {tmp_path / 'machine.json'} describes"
    assert sorted(told, key=str) == [None] * 4 + [other] * 4
