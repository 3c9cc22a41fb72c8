"""Packing: what would be refused elsewhere stays here with its reason, and equal packs equally."""

from __future__ import annotations

import json
import os
import shutil
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import pytest

from gemmgrid.report.bundles import archive, layout, pack, unpack
from gemmgrid.report.bundles.command import main
from gemmgrid.report.bundles.layout import BundleError
from gemmgrid.report.read.collect import Collection, collect
from tests.report import synthetic
from tests.report.bundles.test_bundles import (
    CELL,
    MACHINE,
    NOBODY,
    Files,
    repacked,
    whole,
    write,
)


def shown(found: Collection) -> list[tuple[Any, ...]]:
    """The figures of the report's rows."""
    keys = ("cell", "status", "gflops", "gflops_low", "gflops_high", "measured_at", "flags")
    return [tuple(row[key] for key in keys) for row in (*found.cells, *found.runs)]


def add(results: Path, *lines: str) -> None:
    with (results / CELL).open("a", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)


def test_the_same_results_make_the_same_bytes(tmp_path: Path) -> None:
    write(tmp_path / "there", whole(), whole(128))
    shutil.copytree(tmp_path / "there", tmp_path / "copy")
    os.utime(tmp_path / "copy" / CELL, (1, 1))
    for name in ("there", "copy"):
        pack.pack(tmp_path / name, MACHINE, tmp_path / f"{name}.zip", NOBODY)
    assert (tmp_path / "there.zip").read_bytes() == (tmp_path / "copy.zip").read_bytes()


def test_what_cannot_be_packed_is_told_and_the_rest_goes(tmp_path: Path) -> None:
    there = tmp_path / "there"
    one = whole()
    write(there, one)
    add(
        there,
        json.dumps(one),  # as a git merge leaves it: no problem
        "<<<<<<< HEAD",
        json.dumps(whole(day=2)).replace('"import_s": 0.1', '"import_s": 1e999'),
        json.dumps(whole(day=3)).replace('"import_s": 0.1', '"import_s": NaN'),
        json.dumps(whole(day=1, order=99)),  # the id again with another content
        json.dumps(whole(day=4) | {"backend": "torch-cpu"}),
        "\\xff\\xfe",
        json.dumps(whole(day=5)),
    )
    packed = pack.pack(there, MACHINE, tmp_path / "b.zip", NOBODY)
    assert packed.runs == 2
    told = {problem.line: problem.problem for problem in packed.left_out}
    assert told.keys() == {3, 4, 5, 6, 7, 8}
    assert "is not JSON" in told[3] and "1e999 is no number" in told[4]
    assert "NaN is no number" in told[5] and "stands twice" in told[6]
    assert "torch-cpu" in told[7]
    assert unpack.unpack(tmp_path / "b.zip", tmp_path / "here").runs == 2


def test_a_run_with_an_unknown_end_goes_as_it_is_shown(tmp_path: Path) -> None:
    there = tmp_path / "there"
    write(there, whole(), whole(128, ended_at=None))
    assert pack.pack(there, MACHINE, tmp_path / "b.zip", NOBODY).left_out == []
    unpack.unpack(tmp_path / "b.zip", tmp_path / "here")
    assert shown(collect(tmp_path / "here")) == shown(collect(there))


def test_the_receiver_shows_the_figures_of_the_sender(tmp_path: Path) -> None:
    """Out of order, twice, failed last: the same runs are the latest on both sides."""
    there, here = tmp_path / "there", tmp_path / "here"
    write(there, whole(day=1), whole(day=3), whole(day=2))
    add(there, json.dumps(whole(day=3)))
    failed = whole(128, day=4, status="crashed", reason="the process died of SIGILL while sampling")
    write(there, whole(128, day=2), failed | {"invocations": []})
    first, back = whole(256, day=9), whole(256, day=1)
    write(there, first, back | {"follows": first["id"]})  # a clock that was set back
    pack.pack(there, MACHINE, tmp_path / "b.zip", NOBODY)
    unpack.unpack(tmp_path / "b.zip", here)
    assert shown(collect(here)) == shown(collect(there))
    pack.pack(here, MACHINE, tmp_path / "again.zip", NOBODY)
    assert (tmp_path / "again.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


@pytest.mark.parametrize("kind", ["pipe", "device", "dangling", "folder"])
def test_what_is_no_file_is_neither_waited_for_nor_packed(tmp_path: Path, kind: str) -> None:
    there = tmp_path / "there"
    write(there, whole())
    odd = there / CELL.replace("64x64x64", "96x96x96")
    match kind:
        case "pipe":
            os.mkfifo(odd)
        case "device":
            odd.symlink_to("/dev/zero")
        case "dangling":
            odd.symlink_to("nowhere")
        case _:
            odd.mkdir()
    packed = pack.pack(there, MACHINE, tmp_path / "b.zip", NOBODY)
    assert packed.runs == 1
    assert any(odd.name in problem.file for problem in collect(there).problems)
    if kind != "folder":
        assert [problem.file for problem in packed.left_out] == [odd.as_posix()]


@pytest.mark.parametrize("name", [f"{MACHINE}/machine.json", ".plan/plan.jsonl"])
def test_a_pipe_in_the_place_of_a_description_stops_nobody(tmp_path: Path, name: str) -> None:
    there = tmp_path / "there"
    write(there, whole())
    (there / name).parent.mkdir(exist_ok=True)
    (there / name).unlink(missing_ok=True)
    os.mkfifo(there / name)
    assert len(collect(there).cells) == 1
    assert [problem.file for problem in collect(there).problems] == [(there / name).as_posix()]
    assert pack.pack(there, MACHINE, tmp_path / "b.zip", NOBODY).runs == 1


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_unpacking_writes_nothing_where_one_place_is_taken(tmp_path: Path, kind: str) -> None:
    write(tmp_path / "there", *(whole(n) for n in (64, 96, 128)))
    pack.pack(tmp_path / "there", MACHINE, tmp_path / "b.zip", NOBODY)
    here = tmp_path / "here"
    odd = here / CELL.replace("64x64x64", "128x128x128")
    odd.parent.mkdir(parents=True)
    if kind == "pipe":
        os.mkfifo(odd)
    else:
        (here / "elsewhere").write_text("")
        odd.symlink_to(here / "elsewhere")
    with pytest.raises(BundleError, match="no plain file"):
        unpack.unpack(tmp_path / "b.zip", here)
    assert [path.name for path in odd.parent.iterdir()] == [odd.name]


def test_a_bundle_is_read_in_pieces(tmp_path: Path) -> None:
    """Memory does not grow with the size of a history."""
    count = 12
    line = json.dumps({"noise": os.urandom(1 << 19).hex()}).encode() + b"\n"
    write(tmp_path / "there", whole())
    pack.pack(tmp_path / "there", MACHINE, tmp_path / "b.zip", NOBODY)

    def grow(files: Files) -> None:
        files[CELL] = line * count

    big = repacked(tmp_path / "b.zip", grow)
    tracemalloc.start()
    try:
        with archive.opened(big) as opened:
            assert sum(len(one) for _, one in opened.lines(CELL)) == (len(line) - 1) * count
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_a_bomb_is_known_before_it_is_read(tmp_path: Path) -> None:
    write(tmp_path / "there", whole())
    pack.pack(tmp_path / "there", MACHINE, tmp_path / "b.zip", NOBODY)
    bomb = repacked(tmp_path / "b.zip", lambda files: files.update({CELL: b"\n" * (4 << 20)}))
    with pytest.raises(BundleError, match=r"would grow from \d+ bytes: refused"):
        unpack.unpack(bomb, tmp_path / "here")

    def many(files: Files) -> None:
        for n in range(100, 260):  # each small enough for itself
            name = synthetic.gemm(n).name
            files[f"{MACHINE}/numpy-openblas/{name}.jsonl"] = b"\n" * (1 << 20)

    with pytest.raises(BundleError, match="would unpack to"):
        unpack.unpack(repacked(tmp_path / "b.zip", many), tmp_path / "here")
    assert not (tmp_path / "here").exists()


def test_a_line_without_end_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(layout, "MOST_LINE_BYTES", 1 << 16)
    write(tmp_path / "there", whole())
    pack.pack(tmp_path / "there", MACHINE, tmp_path / "b.zip", NOBODY)
    noise = os.urandom(2 << 20).hex().encode()
    attack = repacked(tmp_path / "b.zip", lambda files: files.update({CELL: noise}))
    with pytest.raises(BundleError, match=r"line 1 is too long"):
        unpack.unpack(attack, tmp_path / "here")


def test_results_that_shrink_very_well_can_be_taken_in(tmp_path: Path) -> None:
    """A coarse clock gives equal samples: their bundle must not look like a bomb."""
    dull = whole()
    for one in dull["invocations"]:
        one["samples"]["elapsed_ns"] = [1000] * 120_000
        one["samples"]["at_ns"] = [0] * 120_000
    write(tmp_path / "there", dull)
    pack.pack(tmp_path / "there", MACHINE, tmp_path / "b.zip", NOBODY)
    with zipfile.ZipFile(tmp_path / "b.zip") as opened:
        assert opened.getinfo(CELL).compress_type == zipfile.ZIP_STORED
    assert unpack.unpack(tmp_path / "b.zip", tmp_path / "here").runs == 1


def test_nothing_printed_steers_the_terminal(tmp_path: Path, capsys: Any) -> None:
    escape = "\x1b]0;owned\x07\x1b[31m"
    there = tmp_path / "there"
    write(there, whole())
    add(there, json.dumps(whole(day=2) | {"id": f"x{escape}", "backend": escape}))
    bundle = str(tmp_path / f"b{escape}.zip")
    assert main(["bundle", "--results", str(there), "--out", bundle]) == 0
    told = capsys.readouterr().out
    assert "1 line not packed:" in told and ", line 2: " in told
    attack = repacked(
        Path(bundle), lambda files: files.update({CELL: files[CELL].replace(b"np.", b"\x1bnp.")})
    )
    evil = repacked(attack, lambda files: files.update({f"{MACHINE}/{escape}": b"x"}))
    for arguments in ([str(attack)], [str(evil)], [bundle], [f"{bundle}{escape}"]):
        main(["unpack", *arguments, "--results", str(tmp_path / "here")])
        out, err = capsys.readouterr()
        told += out + err
    assert told and "\x1b" not in told and "\x07" not in told
