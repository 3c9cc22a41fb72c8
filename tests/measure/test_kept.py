"""What a job has measured survives whatever happens to the job, and stands in its history once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.measure.parts import CELL, part, slurm

from gemmgrid.measure import kept
from gemmgrid.records import history

NAMES = [
    CELL,
    "gemm.float32.32x32x32.t1",
    "gemm.float32.32x32x32.t1.alpha0.5",
    "gemm.float32.32x32x32.t1.alpha-1",
    "gemm.float32.32x32x32.t1.nt.b64.alpha0.25.beta1.5",
    "dot.complex128.1000.t16",
]


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "results/.plan/kept", tmp_path / "results"


@pytest.fixture(autouse=True)
def in_job_7(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "7")


def keep(folder: Path, run: dict) -> Path:
    """Keep a run as its job does."""
    number = run["invocations"][0]["round"] if run["invocations"] else run["order"]
    file = folder / run["machine"] / run["backend"] / f"{run['cell']['name']}.{number}.json"
    kept.put(file, run)
    return file


def histories(results: Path) -> dict[str, list[str]]:
    """Cell → ids of its runs."""
    files = sorted((results / "ice/numpy-openblas").glob("*.jsonl"))
    return {file.stem: [run["id"] for run in history.read(file).runs] for file in files}


def test_every_cell_is_recovered_once(folders):
    folder, results = folders
    for number, name in enumerate(NAMES):
        keep(folder, part(name=name, id=f"2026-{number}"))
    grown = kept.recover(folder, results)
    assert {path.stem for path in grown} == set(NAMES)
    assert histories(results) == {name: [f"2026-{at}"] for at, name in enumerate(NAMES)}
    assert list(folder.rglob("*.json")) == []
    assert kept.recover(folder, results) == []


def test_what_a_history_holds_already_is_not_appended_again(folders):
    """As after a kill between appending and removing."""
    folder, results = folders
    run = part()
    keep(folder, run)
    target = results / "ice/numpy-openblas" / f"{CELL}.jsonl"
    history.append(target, part(id="earlier"))
    history.append(target, run)
    before = target.read_bytes()
    assert kept.recover(folder, results) == []
    assert target.read_bytes() == before
    assert list(folder.rglob("*.json")) == []


def test_appending_once(tmp_path):
    path = tmp_path / "cell.jsonl"
    path.write_bytes(b"no run\n")
    assert kept.append_once(path, part())
    assert not kept.append_once(path, part())
    assert kept.append_once(path, part(id="another"))
    assert [run["id"] for run in history.read(path).runs] == [part()["id"], "another"]
    assert path.read_bytes().startswith(b"no run\n")


def test_rounds_wait_for_one_another(folders):
    folder, results = folders
    for number in (1, 3):
        keep(folder, part(number, 3))
        assert kept.recover(folder, results) == []
    assert histories(results) == {}
    keep(folder, part(2, 3))
    assert len(kept.recover(folder, results)) == 1
    assert histories(results) == {CELL: [part(1)["id"]]}
    (run,) = history.read(results / "ice/numpy-openblas" / f"{CELL}.jsonl").runs
    assert [one["round"] for one in run["invocations"]] == [1, 2, 3]
    assert list(folder.rglob("*.json")) == []


def test_ten_rounds_come_in_their_order(folders):
    for number in range(10, 0, -1):
        keep(folders[0], part(number, 10))
    (path,) = kept.recover(*folders)
    (run,) = history.read(path).runs
    assert [one["round"] for one in run["invocations"]] == list(range(1, 11))


def test_rounds_of_a_study_that_was_changed_are_not_mixed(folders, capfd):
    folder, results = folders
    old = keep(folder, part(2, 2, started_at="2026-11-29T12:00:00.000000Z"))
    keep(folder, part(1, 1))
    assert len(kept.recover(folder, results)) == 1
    (run,) = history.read(results / "ice/numpy-openblas" / f"{CELL}.jsonl").runs
    assert [one["round"] for one in run["invocations"]] == [1]
    assert list(folder.rglob("*.json")) == [old]
    # Other settings, the same number of rounds.
    keep(folder, part(1, 2, settings={"invocations": 9, "rounds": 2}))
    assert kept.recover(folder, results) == []
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"schema": 1, "id', "cannot be read"),
        (b"\xff\xfe", "cannot be read"),
        (b"", "cannot be read"),
        (b"[" * 100_000, "cannot be read"),
        (b"[1]", "is no run but list"),
        (b"{}", "is no run: schema version is None"),
        (json.dumps(part(status="fine")).encode(), "is no run: status 'fine'"),
        (json.dumps(part(schema=2)).encode(), "is newer than this gemmgrid reads"),
        (json.dumps(part(settings=None)).encode(), "does not say of how many rounds"),
        (json.dumps(part(settings={"rounds": "x"})).encode(), "does not say of how many rounds"),
        (json.dumps(part(name=NAMES[1])).encode(), f"holds another cell: {NAMES[1]}"),
        (json.dumps(part(host=None)).encode(), "is no part of a run: TypeError"),
    ],
)
def test_a_file_that_cannot_be_used_is_said_and_left_alone(folders, capfd, content, said):
    folder, results = folders
    bad = keep(folder, part())
    bad.write_bytes(content)
    keep(folder, part(name=NAMES[2]))
    (grown,) = kept.recover(folder, results)
    assert grown.stem == NAMES[2]
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith(f"gemmgrid: {bad} ")
    assert said in lines[0]
    assert bad.read_bytes() == content


def test_a_history_that_cannot_be_written_does_not_cost_the_others(folders, capfd):
    folder, results = folders
    file = keep(folder, part())
    keep(folder, part(name=NAMES[2]))
    (results / "ice/numpy-openblas" / f"{CELL}.jsonl" / "in the way").mkdir(parents=True)
    (grown,) = kept.recover(folder, results)
    assert grown.stem == NAMES[2]
    assert "cannot be written" in capfd.readouterr().err
    assert file.exists()


def test_files_of_other_names_are_nobodys(folders):
    folder, results = folders
    place = folder / "ice/numpy-openblas"
    place.mkdir(parents=True)
    for name in (f"{CELL}.json", f"{CELL}.x.json", ".1.json", f".{CELL}.1.json.abc.new"):
        (place / name).write_text("left alone")
    (folder / "stray.json").write_text("left alone")
    assert kept.recover(folder, results) == []
    assert len(list(folder.rglob("*.*"))) == 5
    assert kept.recover(folder / "none", results) == []


def test_only_a_parts_own_file_is_forgotten(folders):
    folder, _ = folders
    own = [part(number, 2) for number in (1, 2)]
    gone = [keep(folder, one) for one in own]
    newer = keep(folder, part(3, id="measured since"))
    others = [keep(folder, part(name=f"{CELL}.alpha0.5")), keep(folder, part(machine="mil"))]
    torn = keep(folder, part(4))
    torn.write_text("{")
    kept.forget(folder, own)
    assert not any(file.exists() for file in gone)
    assert all(file.exists() for file in (newer, torn, *others))
    kept.forget(folder, own)


@pytest.mark.parametrize("name", NAMES)
def test_forgetting_needs_the_same_run(folders, name):
    file = keep(folders[0], part(name=name, id="of the job that was sent again"))
    kept.forget(folders[0], [part(name=name)])
    assert file.exists()
    kept.forget(folders[0], [json.loads(file.read_text())])
    assert not file.exists()


def test_a_requeued_job_takes_up_what_it_kept(folders, monkeypatch):
    file = keep(folders[0], part())
    assert kept.of_this_job(file) == part()
    monkeypatch.setenv("SLURM_JOB_ID", "8")
    assert kept.of_this_job(file) is None
    monkeypatch.delenv("SLURM_JOB_ID")
    assert kept.of_this_job(file) is None


@pytest.mark.parametrize("content", [None, "", "{", "[]", "null", '{"slurm": null}', "{}"])
def test_what_no_job_kept_is_measured(folders, content):
    file = folders[0] / "ice/numpy-openblas/x.1.json"
    file.parent.mkdir(parents=True)
    if content is not None:
        file.write_text(content)
    assert kept.of_this_job(file) is None


def test_a_run_outside_slurm_is_of_no_job(folders, monkeypatch):
    file = keep(folders[0], part(slurm=None))
    assert kept.of_this_job(file) is None
    monkeypatch.setenv("SLURM_JOB_ID", "")
    assert kept.of_this_job(keep(folders[0], part(slurm=slurm(job_id=None)))) is None
