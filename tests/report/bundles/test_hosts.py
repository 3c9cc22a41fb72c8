"""Whose runs are whose: no bundle makes another computer's runs pass for a machine's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gemmgrid.report.bundles import pack, unpack
from gemmgrid.report.bundles.layout import BundleError
from gemmgrid.report.read.collect import collect
from tests.report import synthetic
from tests.report.bundles.test_bundles import (
    CELL,
    MACHINE,
    NOBODY,
    Files,
    content,
    repacked,
    snapshot,
    whole,
    write,
)

OTHER = {"id": "ffffffffffff"}
LOST: dict[str, Any] = {"status": "lost", "host": {"id": None}, "invocations": []}


def bundle_of(folder: Path, *runs: dict[str, Any]) -> Path:
    write(folder, *runs)
    pack.pack(folder, MACHINE, folder / "b.zip", NOBODY)
    return folder / "b.zip"


def test_a_bundle_of_two_hosts_is_refused(tmp_path: Path) -> None:
    """One run of the host that is here does not open the door for many of another."""
    bundle = bundle_of(tmp_path / "there", *(whole(n) for n in (64, 128, 256)))
    foreign = whole(64, day=2, host=OTHER)

    def mix(files: Files) -> None:
        files[CELL] += content(bundle_of(tmp_path / "other", foreign))[CELL]

    here = tmp_path / "here"
    write(here, whole(512))
    before = snapshot(here)
    with pytest.raises(BundleError, match=r"2 hosts .*abcdefabcdef \(3 runs\), ffffffffffff \(1 r"):
        unpack.unpack(repacked(bundle, mix), here)
    assert snapshot(here) == before


def test_what_another_host_made_is_not_packed(tmp_path: Path) -> None:
    runs = [whole(64), whole(128), whole(64, day=2, host=OTHER), whole(256, host={"id": ""})]
    write(tmp_path / "there", *runs)
    packed = pack.pack(tmp_path / "there", MACHINE, tmp_path / "b.zip", NOBODY)
    assert packed.runs == 2
    told = sorted((problem.line, problem.problem) for problem in packed.left_out)
    assert told == [
        (1, "it does not tell on which host it was made, as only lost runs may"),
        (2, "it was made on host ffffffffffff, and most here on abcdefabcdef"),
    ]
    assert packed.manifest["left_out_lines"] == 2
    assert unpack.unpack(tmp_path / "b.zip", tmp_path / "here").runs == 2


def test_lost_runs_may_have_no_host(tmp_path: Path) -> None:
    bundle = bundle_of(tmp_path / "there", whole(64), whole(128, **LOST))
    assert unpack.unpack(bundle, tmp_path / "here").runs == 2
    only_lost = bundle_of(tmp_path / "lost", whole(256, **LOST))
    write(tmp_path / "owner", whole(32))
    assert unpack.unpack(only_lost, tmp_path / "owner").runs == 1


def test_every_run_that_is_here_counts_not_the_latest(tmp_path: Path) -> None:
    here = tmp_path / "here"
    write(here, whole(64), whole(128), whole(64, day=5, host=OTHER))
    bundle = bundle_of(tmp_path / "there", whole(512, host=OTHER))
    with pytest.raises(BundleError, match=r"other hardware \(abcdefabcdef\) .*\(ffffffffffff\)"):
        unpack.unpack(bundle, here)


def redescribed(results: Path) -> None:
    """The folder as another computer of the same kind makes it: described at another time."""
    path = results / MACHINE / "machine.json"
    path.write_text(path.read_text().replace("11:59:00", "11:59:01"))


def test_a_twin_is_asked_about(tmp_path: Path) -> None:
    here = tmp_path / "here"
    write(here, whole(64))
    redescribed(here)
    before = snapshot(here)
    bundle = bundle_of(tmp_path / "there", whole(64, day=2), whole(128))
    with pytest.raises(BundleError, match=r"two computers.*AS=machine-a-2.*AS=machine-a`"):
        unpack.unpack(bundle, here)
    assert snapshot(here) == before
    assert unpack.unpack(bundle, here, "machine-a-2").cells == 2
    assert len(collect(here).machines) == 2


def test_a_twin_may_be_put_together_by_its_name(tmp_path: Path) -> None:
    here = tmp_path / "here"
    write(here, whole(64))
    redescribed(here)
    bundle = bundle_of(tmp_path / "there", whole(64, day=2), whole(128))
    assert unpack.unpack(bundle, here, MACHINE).merged == 1
    # Now they share runs: nobody is asked again.
    later = bundle_of(tmp_path / "there", whole(256, day=3))
    assert unpack.unpack(later, here).runs == 1


def test_a_machine_that_nobody_described_is_asked_about(tmp_path: Path) -> None:
    here = tmp_path / "here"
    write(here, whole(64))
    (here / MACHINE / "machine.json").unlink()
    bundle = bundle_of(tmp_path / "there", whole(128))
    with pytest.raises(BundleError, match="two computers"):
        unpack.unpack(bundle, here)


def test_flagged_runs_of_others_neither_decide_nor_hinder(tmp_path: Path) -> None:
    stranger = whole(64, day=3, flags=["other-machine"], host=OTHER)
    bundle = bundle_of(tmp_path / "there", whole(64), stranger)
    assert unpack.unpack(bundle, tmp_path / "here").runs == 2
    found = collect(tmp_path / "here")
    assert [run["host_id"] for run in found.runs] == ["abcdefabcdef"]
    assert synthetic.gemm(64).name == found.cells[0]["cell"]
