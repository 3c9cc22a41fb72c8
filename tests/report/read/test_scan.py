"""What lies under results/: found, passed over, or named as a problem."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gemmgrid.report.read.scan import scan

CELL = "gemm.float32.64x64x64.t1.jsonl"


def put(path: Path, content: bytes = b"{}") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_cells_and_machines_are_found(tmp_path: Path) -> None:
    put(tmp_path / "b" / "numpy-openblas" / CELL)
    put(tmp_path / "a" / "machine.json")
    found = scan(tmp_path)
    assert found.machines == ["a", "b"]
    assert [(file.machine, file.backend, file.cell.name) for file in found.cells] == [
        ("b", "numpy-openblas", CELL.removesuffix(".jsonl"))
    ]
    assert found.problems == []


def test_nothing_there_is_nothing(tmp_path: Path) -> None:
    found = scan(tmp_path / "absent")
    assert (found.machines, found.cells, found.problems) == ([], [], [])


def test_hidden_things_tables_and_notes_are_passed_over(tmp_path: Path) -> None:
    put(tmp_path / ".plan" / "plan.jsonl")
    put(tmp_path / ".gitkeep")
    put(tmp_path / "README.md")
    put(tmp_path / "tables" / "cells.csv")
    put(tmp_path / "a" / "notes.md")
    put(tmp_path / "a" / "numpy" / f".{CELL}.x.new")
    found = scan(tmp_path)
    assert found.machines == ["a"]
    assert found.cells == []
    assert found.problems == []


@pytest.mark.parametrize(
    "place",
    [
        CELL,
        f"a/{CELL}",
        f"a/numpy/deeper/{CELL}",
        "a/numpy/core.bin",
        "a/numpy/gemm.float32.64x64.t1.jsonl",
        "a/numpy/gemm.float31.64x64x64.t1.jsonl",
        "a/numpy/notacell.jsonl",
        "a/numpy/gemm.float32.64x64x64.t1 (copy).jsonl",
        "a/numpy/gemm.float32.99999999999999999999x64x64.t1.jsonl",
        f"A B/numpy/{CELL}",
        f"$(reboot)/numpy/{CELL}",
        f"a/num py/{CELL}",
        f"a/x..y/{CELL}",
    ],
)
def test_what_does_not_belong_is_named(tmp_path: Path, place: str) -> None:
    file = put(tmp_path / place)
    found = scan(tmp_path)
    assert found.cells == []
    assert len(found.problems) == 1
    named = found.problems[0].file
    assert file.as_posix().startswith(named)
    assert file.read_bytes() == b"{}"


def test_a_name_that_is_no_text_is_named_readably(tmp_path: Path) -> None:
    folder = put(tmp_path / "a" / "numpy" / CELL).parent
    try:
        Path(os.fsdecode(os.fsencode(folder) + b"/bad\xff\n.jsonl")).write_bytes(b"{}")
    except OSError:
        pytest.skip("this file system takes only UTF-8 names")
    found = scan(tmp_path)
    assert len(found.cells) == 1
    assert len(found.problems) == 1
    assert found.problems[0].file.isprintable()


def test_a_folder_that_cannot_be_listed_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "a" / "numpy" / CELL)
    real = os.scandir

    def refuse(path: Path) -> object:
        if Path(path).name == "numpy":
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", refuse)
    found = scan(tmp_path)
    assert found.problems[0].problem == "cannot be listed: Permission denied"


def test_a_dangling_link_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    assert scan(tmp_path).machines == []
