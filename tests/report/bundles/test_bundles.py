"""Bundles: what goes in comes out, nothing identifying leaves, and no attack gets in."""

from __future__ import annotations

import hashlib
import json
import shutil
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gemmgrid.records import history
from gemmgrid.records.run import problems_of
from gemmgrid.report.bundles import pack, unpack
from gemmgrid.report.bundles.command import main
from gemmgrid.report.bundles.layout import BundleError
from gemmgrid.report.bundles.redact import Redactor
from gemmgrid.report.read.collect import collect
from tests.report import synthetic

MACHINE = "machine-a"
CELL = f"{MACHINE}/numpy-openblas/{synthetic.gemm(64).name}.jsonl"
HOME = "/home/jdoe/work/project"
NOBODY = Redactor(user="jdoe", host="node17.example.org")

Files = dict[str, bytes]


def whole(n: int = 64, day: int = 1, **fields: Any) -> dict[str, Any]:
    """A run that fits the schema in every part."""
    run = synthetic.run(synthetic.gemm(n), invocations=2, samples=3, seed=n + day)
    moment = f"2026-11-{day:02}T12:00:00.000000Z"
    run |= {"id": f"{day:02}-{n}", "started_at": moment, "ended_at": moment}
    prefix = f"{HOME}/.envs/numpy-openblas"
    run["environment"] |= {"prefix": prefix, "python": "3.11.7", "packages": [], "variables": {}}
    run["environment"]["dropped_variables"] = {"OPENBLAS_CORETYPE": "Haswell"}
    run["library"]["file"] = f"{prefix}/lib/libopenblas.so"
    run["context"] |= {"backend_hash": "b" * 12, "device": None}
    run["context"]["backend"] = {
        **{"deploy": "venv", "adapter": "numpy", "options": {}, "protocol": 1, "lock": None},
        **{"python": "3.11.7", "packages": {"numpy": "2.4.6"}, "variables": {}, "library": None},
        "precision": {},
    }
    for one in run["invocations"]:
        one |= {"started_at": moment, "reason": None, "flags": [], "stage": "done", "unknown": {}}
        one["threads"] |= dict.fromkeys(("library", "burned", "affinity_before", "affinity_after"))
        verdict = {"method": "exact", "rows": 1, "miss_probability": 0.0, "problem": None}
        seen = one["verify"]["before"] | verdict
        one["verify"] = dict.fromkeys(("before", "after", "fresh"), seen)
    return run | fields


def write(results: Path, *runs: dict[str, Any]) -> None:
    for run in runs:
        synthetic.write_run(results, run)
    synthetic.write_machine(results, synthetic.Machine(MACHINE))


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    write(tmp_path / "there", whole(day=1), whole(day=3), whole(128, day=2))
    out = tmp_path / "bundle.zip"
    pack.pack(tmp_path / "there", MACHINE, out, NOBODY)
    return out


def content(bundle: Path) -> Files:
    with zipfile.ZipFile(bundle) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_what_goes_in_comes_out(bundle: Path, tmp_path: Path) -> None:
    here = tmp_path / "here"
    arrived = unpack.unpack(bundle, here)
    assert (arrived.cells, arrived.runs, arrived.known, arrived.machine_file) == (2, 3, 0, True)
    there, came = collect(tmp_path / "there"), collect(here)
    assert came.problems == []
    assert [row["gflops"] for row in came.runs] == [row["gflops"] for row in there.runs]
    assert [row["id"] for row in came.runs] == [row["id"] for row in there.runs]


def test_a_second_time_changes_nothing(bundle: Path, tmp_path: Path) -> None:
    here = tmp_path / "here"
    unpack.unpack(bundle, here)
    before = snapshot(here)
    arrived = unpack.unpack(bundle, here)
    assert (arrived.runs, arrived.known) == (0, 3)
    assert snapshot(here) == before


def test_histories_merge_in_the_order_of_time_and_keep_every_line(
    bundle: Path, tmp_path: Path
) -> None:
    here = tmp_path / "here"
    write(here, whole(day=2))
    path = here / CELL
    with path.open("ab") as file:
        file.write(b"{not a run\n")
    write(here, whole(day=4))
    own = path.read_bytes().splitlines()
    machine = (here / MACHINE / "machine.json").read_bytes()
    arrived = unpack.unpack(bundle, here)
    assert (arrived.merged, arrived.cells) == (1, 1)
    assert [run["id"] for run in history.read(path).runs] == ["01-64", "02-64", "03-64", "04-64"]
    merged = path.read_bytes().splitlines()
    assert [line for line in merged if line in own] == own
    assert merged.index(b"{not a run") == merged.index(own[0]) + 1
    assert (here / MACHINE / "machine.json").read_bytes() == machine


def test_another_name(bundle: Path, tmp_path: Path) -> None:
    unpack.unpack(bundle, tmp_path / "here", "lab-two")
    assert (tmp_path / "here/lab-two/machine.json").exists()
    assert len(collect(tmp_path / "here").cells) == 2


def test_other_hardware_under_the_same_name_is_refused(bundle: Path, tmp_path: Path) -> None:
    here = tmp_path / "here"
    write(here, whole(256, host={"id": "ffffffffffff"}))
    before = snapshot(here)
    with pytest.raises(BundleError, match=r"other hardware .* AS=machine-a-2"):
        unpack.unpack(bundle, here)
    assert snapshot(here) == before


def test_the_manifest_says_whether_the_study_was_complete(tmp_path: Path) -> None:
    write(tmp_path, whole(), whole(128, status="crashed", reason="SIGSEGV", invocations=[]))
    cells = [("numpy-openblas", synthetic.gemm(n), "planned", None) for n in (64, 128)]
    synthetic.write_plan(tmp_path, cells)
    manifest = pack.pack(tmp_path, MACHINE, tmp_path / "b.zip", NOBODY).manifest
    assert (manifest["complete"], manifest["planned"], manifest["settled"]) == (False, 2, 1)
    assert "1 of 2" in " ".join(unpack.unpack(tmp_path / "b.zip", tmp_path / "here").notes)
    synthetic.write_plan(tmp_path, cells[:1])
    assert pack.pack(tmp_path, MACHINE, tmp_path / "b.zip", NOBODY).manifest["complete"] is True
    (tmp_path / ".plan/plan.jsonl").unlink()
    assert pack.pack(tmp_path, MACHINE, tmp_path / "b.zip", NOBODY).manifest["complete"] is None


def repacked(
    bundle: Path,
    change: Callable[[Files], None],
    entry: Callable[[zipfile.ZipInfo], None] | None = None,
    fix: bool = True,
) -> Path:
    """The bundle with its files changed; `fix` makes the manifest fit, as an attacker would."""
    files = content(bundle)
    change(files)
    if fix and "manifest.json" in files:
        manifest = json.loads(files["manifest.json"])
        manifest["files"] = [
            {
                "path": name,
                "bytes": len(data),
                "sha256": hashlib.sha256(data).hexdigest(),
                "runs": 1,
            }
            for name, data in files.items()
            if name != "manifest.json"
        ]
        files["manifest.json"] = json.dumps(manifest).encode()
    out = bundle.with_name("attack.zip")
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, data in files.items():
            info = zipfile.ZipInfo(name)
            if entry and name != "manifest.json":
                entry(info)
            opened.writestr(info, data, zipfile.ZIP_DEFLATED)
    return out


def moved(to: str) -> Callable[[Files], None]:
    def change(files: Files) -> None:
        files[to] = files.pop(CELL)

    return change


def edited(**fields: Any) -> Callable[[Files], None]:
    def change(files: Files) -> None:
        run = json.loads(files[CELL].splitlines()[0])
        files[CELL] = json.dumps(run | fields).encode() + b"\n"

    return change


def replaced(old: bytes, new: bytes) -> Callable[[Files], None]:
    def change(files: Files) -> None:
        assert old in files[CELL]
        files[CELL] = files[CELL].replace(old, new, 1)

    return change


def manifested(**fields: Any) -> Callable[[Files], None]:
    def change(files: Files) -> None:
        manifest = json.loads(files["manifest.json"])
        files["manifest.json"] = json.dumps(manifest | fields).encode()

    return change


ATTACKS: dict[str, tuple[Callable[[Files], None], str]] = {
    "climbs out": (moved(f"{MACHINE}/../../evil.jsonl"), "leaves the folder"),
    "climbs out by backslash": (moved(f"{MACHINE}\\..\\evil.jsonl"), "leaves the folder"),
    "absolute": (moved("/tmp/evil.jsonl"), "leaves the folder"),
    "another machine's folder": (moved("machine-b/numpy-openblas/x.jsonl"), "not in the folder"),
    "hidden plan": (moved(f"{MACHINE}/.plan/plan.jsonl"), "not a backend's folder"),
    "no cell": (moved(f"{MACHINE}/numpy-openblas/evil.jsonl"), "not a cell's file"),
    "a script": (moved(f"{MACHINE}/numpy-openblas/run.sh"), "neither machine.json"),
    "too deep": (moved(f"{MACHINE}/a/b/{synthetic.gemm(64).name}.jsonl"), "neither machine.json"),
    "other cell": (moved(CELL.replace("64x64x64", "96x96x96")), "a run of"),
    "other backend": (moved(CELL.replace("numpy-openblas", "torch-cpu")), "a run of backend"),
    "twice by case": (
        lambda files: files.update({CELL.replace("numpy", "NUMPY"): files[CELL]}),
        "holds a file twice",
    ),
    "no manifest": (lambda files: files.pop("manifest.json"), "no manifest.json"),
    "newer bundle": (manifested(schema=99), "update"),
    "no bundle": (manifested(kind="other"), "not that of a gemmgrid bundle"),
    "machine climbs": (manifested(machine="../x"), "machine:"),
    "machine is a number": (manifested(machine=7), "machine:"),
    "newer run": (edited(schema=99), "newer than this gemmgrid reads"),
    "unknown status": (edited(status="splendid"), "status is 'splendid'"),
    "a stranger's key": (edited(evil=1), "evil is no key of a run"),
    "invocation of text": (edited(invocations=["x"]), "not an object"),
    "NaN": (replaced(b'"import_s":0.1', b'"import_s":NaN'), "NaN is no number"),
    "not JSON": (replaced(b'{"schema"', b"{schema"), "is not JSON"),
    "nested deeply": (lambda files: files.update({CELL: b"[" * 100_000}), "is not JSON"),
    "no run": (lambda files: files.update({CELL: b"\n"}), "holds no run"),
    "run twice": (lambda files: files.update({CELL: files[CELL] * 2}), "stands twice"),
    "run without a host": (edited(host={"id": None}), "does not tell on which host"),
    "run of an empty host": (edited(host={"id": ""}), "does not tell on which host"),
    "a number beyond all": (replaced(b'"import_s":0.1', b'"import_s":1e999'), "1e999 is no number"),
    "a value of a wrong type": (edited(expression=[1]), "expression is a list"),
    "machine.json a list": (
        lambda files: files.update({f"{MACHINE}/machine.json": b"[]"}),
        "not a JSON object",
    ),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_is_refused_and_nothing_written(
    bundle: Path, tmp_path: Path, attack: str
) -> None:
    change, told = ATTACKS[attack]
    here = tmp_path / "here"
    write(here, whole(day=2))
    before = snapshot(tmp_path / "here")
    with pytest.raises(BundleError, match=told):
        unpack.unpack(repacked(bundle, change), here)
    assert snapshot(here) == before
    assert not (tmp_path / "evil.jsonl").exists() and not Path("/tmp/evil.jsonl").exists()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (replaced(b'"samples"', b'"Samples"'), "changed or damaged"),
        (lambda files: files.update({CELL: files[CELL][:-5]}), "cut off"),
        (lambda files: files.update({CELL: files[CELL] + b"{}"}), "larger than"),
        (lambda files: files.pop(CELL), "missing from the bundle"),
        (
            lambda files: files.update({CELL.replace("64x64x64", "96x96x96"): b"x"}),
            "not in the manifest",
        ),
    ],
)
def test_the_manifest_is_held_to(
    bundle: Path, tmp_path: Path, change: Callable[[Files], None], told: str
) -> None:
    with pytest.raises(BundleError, match=told):
        unpack.unpack(repacked(bundle, change, fix=False), tmp_path / "here")
    assert not (tmp_path / "here").exists()


def test_a_link_is_refused(bundle: Path, tmp_path: Path) -> None:
    def link(info: zipfile.ZipInfo) -> None:
        info.external_attr = (stat.S_IFLNK | 0o777) << 16

    attack = repacked(bundle, lambda files: None, link)
    with pytest.raises(BundleError, match="no plain file"):
        unpack.unpack(attack, tmp_path / "here")


def test_a_bomb_is_not_unpacked(bundle: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("gemmgrid.report.bundles.layout.MOST_FILE_BYTES", 100_000)
    bomb = repacked(bundle, lambda files: files.update({CELL: b" " * 10_000_000}))
    assert bomb.stat().st_size < 100_000
    with pytest.raises(BundleError, match="refused"):
        unpack.unpack(bomb, tmp_path / "here")


def test_links_in_the_results_lead_nowhere(bundle: Path, tmp_path: Path) -> None:
    here, outside = tmp_path / "here", tmp_path / "outside"
    here.mkdir()
    outside.mkdir()
    (here / MACHINE).symlink_to(outside)
    with pytest.raises(BundleError, match="leads out of"):
        unpack.unpack(bundle, here)
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("data", [b"", b"hello", b"PK\x03\x04" + b"\0" * 50])
def test_no_zip_file(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "b.zip").write_bytes(data)
    with pytest.raises(BundleError, match="no readable zip"):
        unpack.unpack(tmp_path / "b.zip", tmp_path / "here")


def test_damaged_bytes(bundle: Path, tmp_path: Path) -> None:
    """Whatever byte is damaged: refused, or harmless."""
    whole_file = bundle.read_bytes()
    for position in range(0, len(whole_file), max(1, len(whole_file) // 60)):
        damaged = bytearray(whole_file)
        damaged[position] ^= 0xFF
        bundle.write_bytes(bytes(damaged))
        here = tmp_path / f"here-{position}"
        try:
            unpack.unpack(bundle, here)
        except BundleError:
            assert not here.exists()
        else:
            assert collect(here).problems == []


def test_commands(bundle: Path, tmp_path: Path, capsys: Any) -> None:
    here = str(tmp_path / "here")
    assert main(["unpack", str(bundle), "--results", here]) == 0
    assert "3 runs came in: 2 cells new here" in capsys.readouterr().out
    out = str(tmp_path / "again.zip")
    assert main(["bundle", "--results", here, "--out", out]) == 0
    assert "3 runs in 3 files of machine-a" in capsys.readouterr().out
    assert main(["unpack", str(tmp_path / "nowhere.zip"), "--results", here]) == 1
    assert "is not there" in capsys.readouterr().err
    shutil.copytree(tmp_path / "here" / MACHINE, tmp_path / "here" / "machine-b")
    assert main(["bundle", "--results", here, "--out", out]) == 1
    assert "which machine?" in capsys.readouterr().err


def test_a_run_of_the_real_types_is_what_the_tests_pack() -> None:
    """The runs here are as measured ones, so that an attack is refused for its own sake."""
    assert problems_of(whole()) == []
