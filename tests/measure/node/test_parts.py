"""What a job has measured survives whatever happens to the job, and stands in its history once."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest

from gemmgrid.measure.node import parts as keeping
from gemmgrid.measure.node.parts import Parts
from gemmgrid.records import files, history
from tests.measure.parts import CELL, part

NAMES = [
    CELL,
    "gemm.float32.32x32x32.t1.alpha0.5",
    "gemm.float32.32x32x32.t1.alpha-1",
    "gemm.float32.32x32x32.t1.nt.b64.alpha0.25.beta1.5",
    "dot.complex128.1000.t16",
]


@pytest.fixture
def cell(tmp_path: Path):
    """The parts of a cell's next run; `latest` is the run before it."""

    def make(
        rounds: int = 1, name: str = CELL, occasion: str = "aa11", latest: str | None = None
    ) -> Parts:
        path = tmp_path / f"results/ice/numpy-openblas/{name}.jsonl"
        entry = {"path": str(path), "occasion": occasion, "latest": latest}
        return Parts(tmp_path / "parts", entry, rounds)

    return make


def ids(parts: Parts) -> list[str]:
    return [run["id"] for run in history.read(parts.history).runs]


@pytest.mark.parametrize("name", NAMES)
def test_a_whole_run_is_appended_once_and_its_parts_are_gone(cell, name):
    parts = cell(2, name)
    parts.put(1, part(1, 2, name))
    assert parts.join() is None and not parts.history.exists()
    parts.put(2, part(2, 2, name))
    run = parts.join()
    assert [one["round"] for one in run["invocations"]] == [1, 2]
    assert ids(parts) == [run["id"]]
    assert not parts.file(1).exists() and not parts.file(2).exists()
    assert parts.join() is None and len(ids(parts)) == 1


def test_a_round_that_failed_is_the_last(cell):
    parts = cell(3)
    parts.put(1, part(1, 3))
    assert not parts.has_failed
    parts.put(2, part(2, 3, status="crashed", reason="SIGSEGV", invocations=[]))
    assert parts.has_failed
    run = parts.join()
    assert (run["status"], run["reason"]) == ("crashed", "SIGSEGV")
    assert [one["round"] for one in run["invocations"]] == [1]
    assert ids(parts) == [run["id"]] and not parts.file(1).exists()


def test_a_kill_between_appending_and_removing_leaves_one_run(cell):
    parts = cell()
    parts.put(1, part())
    content = parts.file(1).read_bytes()
    parts.join()
    before = parts.history.read_bytes()
    parts.file(1).write_bytes(content)  # as if it had not been removed
    assert parts.join()["id"] == part()["id"]
    assert parts.history.read_bytes() == before
    assert not parts.file(1).exists()


def test_parts_of_another_occasion_are_not_taken(cell):
    cell(occasion="old0").put(1, part(id="old"))
    assert cell(occasion="aa11").get(1) is None
    assert cell(occasion="old0").get(1)["id"] == "old"


def test_an_occasion_is_over_when_its_history_has_grown(cell):
    parts = cell()
    assert not parts.is_over
    history.append(parts.history, part(id="first"))
    assert parts.is_over
    assert not cell(latest="first").is_over
    history.append(parts.history, part(id="second", status="lost"))
    assert cell(latest="first").is_over


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", "is no part of a run"),
        (b"[]", "is no part of a run"),
        (b'{"schema": 99}', "is no part of a run"),
        (b"\xff\xfe", "is no part of a run"),
        (json.dumps(part(name=NAMES[1])).encode(), f"holds another cell: {NAMES[1]}"),
    ],
)
def test_what_is_no_part_is_told_and_measured_again(cell, capfd, content, words):
    parts = cell()
    parts.file(1).parent.mkdir(parents=True)
    parts.file(1).write_bytes(content)
    assert parts.get(1) is None and parts.join() is None
    assert words in capfd.readouterr().err and parts.file(1).read_bytes() == content


@pytest.mark.parametrize(("number", "times"), [(errno.EIO, 2), (errno.ESTALE, 2), (errno.EIO, 3)])
def test_a_network_file_system_gets_a_second_try(cell, monkeypatch, number, times):
    monkeypatch.setattr(keeping, "PAUSE_S", 0.0)
    real, calls = files.write_atomically, []

    def write(path: Path, content: bytes) -> None:
        calls.append(path)
        if len(calls) < times:
            raise OSError(number, "passing")
        real(path, content)

    monkeypatch.setattr(keeping.files, "write_atomically", write)
    parts = cell()
    if times == 2:
        parts.put(1, part())
        assert parts.get(1)["id"] == part()["id"]
    else:
        with pytest.raises(OSError, match="passing"):
            parts.put(1, part())
        assert len(calls) == 2


def test_a_full_disk_is_no_passing_error(cell, monkeypatch):
    calls: list[Any] = []

    def write(path: Path, content: bytes) -> None:
        calls.append(path)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(keeping.files, "write_atomically", write)
    with pytest.raises(OSError, match="No space"):
        cell().put(1, part())
    assert len(calls) == 1


def test_a_part_that_cannot_be_removed_costs_nothing(cell, monkeypatch, capfd):
    parts = cell()
    parts.put(1, part())

    def refuse(self: Path, missing_ok: bool = False) -> None:
        raise OSError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "unlink", refuse)
    assert parts.join()["id"] == part()["id"]
    assert "cannot be removed: Permission denied; passed over" in capfd.readouterr().err
