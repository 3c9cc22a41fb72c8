"""What a job has measured survives whatever happens to the job, and stands in its history once."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from gemmgrid.measure.node import recovery
from gemmgrid.records import history
from tests.measure.parts import CELL, part

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
    return recovery.put(file, run)


@pytest.fixture
def keep_as(monkeypatch, folders):
    """Keep a run as another job does, at another hour."""

    def keep_it(job: str, run: dict, hour: int = 12) -> Path:
        monkeypatch.setenv("SLURM_JOB_ID", job)
        for key in ("started_at", "ended_at"):
            run[key] = run[key].replace("T12", f"T{hour:02}")
        return keep(folders[0], run | {"id": f"{hour:02}-{job}"})

    return keep_it


def histories(results: Path) -> dict[str, list[str]]:
    """Cell → ids of its runs."""
    files = sorted((results / "ice/numpy-openblas").glob("*.jsonl"))
    return {file.stem: [run["id"] for run in history.read(file).runs] for file in files}


def test_every_cell_is_recovered_once(folders):
    folder, results = folders
    for number, name in enumerate(NAMES):
        keep(folder, part(name=name, id=f"2026-{number}"))
    grown = recovery.recover(folder, results)
    assert {path.stem for path in grown} == set(NAMES)
    assert histories(results) == {name: [f"2026-{at}"] for at, name in enumerate(NAMES)}
    assert list(folder.rglob("*.json")) == []
    assert recovery.recover(folder, results) == []


def test_what_a_history_holds_already_is_not_appended_again(folders):
    """As after a kill between appending and removing."""
    folder, results = folders
    run = part()
    keep(folder, run)
    target = results / "ice/numpy-openblas" / f"{CELL}.jsonl"
    history.append(target, part(id="earlier"))
    history.append(target, run)
    before = target.read_bytes()
    assert recovery.recover(folder, results) == []
    assert target.read_bytes() == before
    assert list(folder.rglob("*.json")) == []


def test_appending_once(tmp_path):
    path = tmp_path / "cell.jsonl"
    path.write_bytes(b"no run\n")
    assert recovery.append_once(path, part())
    assert not recovery.append_once(path, part())
    assert recovery.append_once(path, part(id="another"))
    assert [run["id"] for run in history.read(path).runs] == [part()["id"], "another"]
    assert path.read_bytes().startswith(b"no run\n")


def test_two_jobs_that_measured_a_cell_keep_a_run_each(folders, keep_as):
    """An allocation of a killed workflow and one of the next can do so."""
    folder, results = folders
    files = [keep_as("20", part(), 15), keep_as("9", part(), 13), keep_as("10", part(), 14)]
    assert [file.name for file in files] == [f"{CELL}.1.{job}.json" for job in (20, 9, 10)]
    assert recovery.recover(folder, results) == [results / "ice/numpy-openblas" / f"{CELL}.jsonl"]
    assert histories(results) == {CELL: ["13-9", "14-10", "15-20"]}
    assert list(folder.rglob("*.json")) == []


def test_of_several_rounds_the_newest_make_a_run(folders, keep_as, capfd):
    folder, results = folders
    keep_as("7", part(1, 2), 12)
    keep_as("8", part(1, 2), 14)
    keep_as("9", part(2, 2), 13)
    assert len(recovery.recover(folder, results)) == 1
    assert histories(results) == {CELL: ["14-8"]}
    assert list(folder.rglob("*.json")) == []
    (line,) = capfd.readouterr().err.splitlines()
    assert f"{CELL}.1.7.json is removed: it is a round of a run that was never whole" in line


def test_as_many_runs_of_several_rounds_as_are_whole(folders, keep_as):
    folder, results = folders
    for number, job, hour in ((1, "7", 10), (2, "7", 11), (1, "8", 12), (2, "8", 13)):
        keep_as(job, part(number, 2), hour)
    newest = keep_as("9", part(1, 2), 15)
    recovery.recover(folder, results)
    (runs,) = histories(results).values()
    # The newest of each round: what job 9 began takes job 8's second round, job 8's that of job 7.
    assert runs == ["12-8", "15-9"]
    assert not newest.exists()


def test_an_old_round_waits_until_its_cell_has_a_newer_run(folders, keep_as, capfd):
    folder, results = folders
    target = results / "ice/numpy-openblas" / f"{CELL}.jsonl"
    old = keep_as("7", part(1, 2), 11)
    history.append(target, part(id="before", started_at="2026-11-30T09", ended_at="2026-11-30T10"))
    history.append(target, part(id="gone", started_at="2026-11-30T12", status="lost"))
    assert recovery.recover(folder, results) == []
    assert old.exists()
    history.append(target, part(id="now", started_at="2026-11-30T13", ended_at="2026-11-30T14"))
    running = keep_as("8", part(2, 2, settings={"invocations": 9, "rounds": 2}), 15)
    assert recovery.recover(folder, results) == []
    assert list(folder.rglob("*.json")) == [running]
    assert capfd.readouterr().err.count("is removed") == 1


@pytest.mark.parametrize("held", [False, True])
def test_the_copies_of_snakemake_go_with_the_run(folders, held):
    """A later `-f` would take them for a new measurement."""
    folder, results = folders
    copies = results / ".plan/rounds/ice/numpy-openblas"
    copies.mkdir(parents=True)
    own = [copies / f"{CELL}.{number}.json" for number in (1, 2, 10)]
    others = [copies / f"{name}.1.json" for name in (f"{CELL}.alpha0.5", NAMES[1])]
    others += [copies / f"{CELL}.jsonl", copies / f"{CELL}.1.7.json"]
    for file in (*own, *others):
        file.write_text("{}")
    keep(folder, part())
    if held:
        history.append(results / "ice/numpy-openblas" / f"{CELL}.jsonl", part())
    keep(folder, part(1, 2, name=NAMES[1]))  # not whole
    assert len(recovery.recover(folder, results, results / ".plan/rounds")) == (not held)
    assert not any(file.exists() for file in own)
    assert all(file.exists() for file in others)


def test_without_copies_nothing_is_removed(folders):
    keep(folders[0], part())
    assert len(recovery.recover(*folders, folders[1] / ".plan/none")) == 1


def failing(monkeypatch, number: int, times: int) -> list[Path]:
    """A test double of a file system that refuses so many writes; the paths that were tried."""
    tried: list[Path] = []
    write = history.write_atomically

    def refuse(path: Path, content: bytes) -> None:
        tried.append(path)
        if len(tried) <= times:
            raise OSError(number, "test")
        write(path, content)

    monkeypatch.setattr(history, "write_atomically", refuse)
    monkeypatch.setattr(recovery, "PAUSE_S", 0.0)
    return tried


@pytest.mark.parametrize("number", [errno.ESTALE, errno.EIO, errno.ETIMEDOUT])
def test_keeping_is_tried_once_more(folders, monkeypatch, number):
    tried = failing(monkeypatch, number, 1)
    assert json.loads(keep(folders[0], part()).read_text()) == part()
    assert len(tried) == 2


@pytest.mark.parametrize(("number", "times"), [(errno.ESTALE, 2), (errno.ENOSPC, 1)])
def test_what_cannot_be_kept_is_an_error(folders, monkeypatch, number, times):
    tried = failing(monkeypatch, number, times)
    with pytest.raises(OSError, match="test"):
        keep(folders[0], part())
    assert len(tried) == times


def test_a_history_that_cannot_be_read_now_does_not_get_a_run_twice(folders, monkeypatch, capfd):
    folder, results = folders
    file = keep(folder, part())
    target = results / "ice/numpy-openblas" / f"{CELL}.jsonl"
    history.append(target, part())
    read, stale = history.read_regular, [target]

    def once(path: Path) -> bytes:
        if path in stale:
            stale.remove(path)
            raise OSError(errno.ESTALE, "Stale file handle")
        return read(path)

    monkeypatch.setattr(history, "read_regular", once)
    assert recovery.recover(folder, results) == []
    assert file.exists() and "Stale file handle" in capfd.readouterr().err
    assert recovery.recover(folder, results) == []
    assert histories(results) == {CELL: [part()["id"]]}


def test_rounds_wait_for_one_another(folders):
    folder, results = folders
    for number in (1, 3):
        keep(folder, part(number, 3))
        assert recovery.recover(folder, results) == []
    assert histories(results) == {}
    keep(folder, part(2, 3))
    assert len(recovery.recover(folder, results)) == 1
    assert histories(results) == {CELL: [part(1)["id"]]}
    (run,) = history.read(results / "ice/numpy-openblas" / f"{CELL}.jsonl").runs
    assert [one["round"] for one in run["invocations"]] == [1, 2, 3]
    assert list(folder.rglob("*.json")) == []


def test_ten_rounds_come_in_their_order(folders):
    for number in range(10, 0, -1):
        keep(folders[0], part(number, 10))
    (path,) = recovery.recover(*folders)
    (run,) = history.read(path).runs
    assert [one["round"] for one in run["invocations"]] == list(range(1, 11))


def test_rounds_of_a_study_that_was_changed_are_not_mixed(folders, capfd):
    folder, results = folders
    newer = keep(folder, part(2, 2, started_at="2026-11-30T13:00:00.000000Z"))
    keep(folder, part(1, 1))
    assert len(recovery.recover(folder, results)) == 1
    (run,) = history.read(results / "ice/numpy-openblas" / f"{CELL}.jsonl").runs
    assert [one["round"] for one in run["invocations"]] == [1]
    assert list(folder.rglob("*.json")) == [newer]
    # Other settings, the same number of rounds.
    other = {"settings": {"invocations": 9, "rounds": 2}, "started_at": "2026-11-30T14"}
    keep(folder, part(1, 2, **other))
    assert recovery.recover(folder, results) == []
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
        (json.dumps(part(status="fine")).encode(), "is no run: status is 'fine'"),
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
    (grown,) = recovery.recover(folder, results)
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
    (grown,) = recovery.recover(folder, results)
    assert grown.stem == NAMES[2]
    assert "cannot be written" in capfd.readouterr().err
    assert file.exists()


def test_files_of_other_names_are_nobodys(folders):
    folder, results = folders
    place = folder / "ice/numpy-openblas"
    place.mkdir(parents=True)
    names = (f"{CELL}.json", f"{CELL}.x.json", f"{CELL}.1.json", f"{CELL}.1..json", ".1.7.json")
    for name in (*names, f".{CELL}.1.7.json.abc.new"):
        (place / name).write_text("left alone")
    (folder / "stray.json").write_text("left alone")
    assert recovery.recover(folder, results) == []
    assert len(list(folder.rglob("*.*"))) == 7
    assert recovery.recover(folder / "none", results) == []


def test_only_a_parts_own_file_is_forgotten(folders):
    folder, _ = folders
    own = [part(number, 2) for number in (1, 2)]
    gone = [keep(folder, one) for one in own]
    newer = keep(folder, part(3, id="measured since"))
    others = [keep(folder, part(name=f"{CELL}.alpha0.5")), keep(folder, part(machine="mil"))]
    torn = keep(folder, part(4))
    torn.write_text("{")
    recovery.forget(folder, own)
    assert not any(file.exists() for file in gone)
    assert all(file.exists() for file in (newer, torn, *others))
    recovery.forget(folder, own)


def test_the_same_part_is_forgotten_whatever_its_job(folders, keep_as, monkeypatch):
    older, newer = keep_as("7", part(), 12), keep_as("8", part(), 13)
    monkeypatch.setenv("SLURM_JOB_ID", "")
    recovery.forget(folders[0], [json.loads(older.read_text())])
    assert (older.exists(), newer.exists()) == (False, True)


def test_forgetting_never_fails(folders, monkeypatch, capfd):
    file = keep(folders[0], part())

    def refuse(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "unlink", refuse)
    recovery.forget(folders[0], [part()])
    assert file.exists()
    assert "Permission denied; passed over" in capfd.readouterr().err


@pytest.mark.parametrize("name", NAMES)
def test_forgetting_needs_the_same_run(folders, name):
    file = keep(folders[0], part(name=name, id="of the job that was sent again"))
    recovery.forget(folders[0], [part(name=name)])
    assert file.exists()
    recovery.forget(folders[0], [json.loads(file.read_text())])
    assert not file.exists()


def test_a_requeued_job_takes_up_what_it_kept(folders, monkeypatch):
    file = folders[0] / f"ice/numpy-openblas/{CELL}.1.json"
    recovery.put(file, part(slurm=None))  # what the job could tell of itself does not matter
    assert recovery.of_this_job(file) == part(slurm=None)
    assert recovery.of_this_job(file.with_name(f"{CELL}.2.json")) is None
    monkeypatch.setenv("SLURM_JOB_ID", "8")
    assert recovery.of_this_job(file) is None
    monkeypatch.delenv("SLURM_JOB_ID")
    assert recovery.of_this_job(file) is None


@pytest.mark.parametrize(
    "content",
    [None, "", "{", "[]", "null", '{"slurm": null}', "{}", json.dumps(part(name=NAMES[1]))],
)
def test_what_no_job_kept_is_measured(folders, content):
    file = folders[0] / f"ice/numpy-openblas/{CELL}.1.json"
    file.parent.mkdir(parents=True)
    if content is not None:
        recovery.own_file(file).write_text(content)
    assert recovery.of_this_job(file) is None


def test_a_run_outside_slurm_is_of_no_job(folders, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "")
    file = folders[0] / f"ice/numpy-openblas/{CELL}.1.json"
    assert recovery.put(file, part(slurm=None)).name == f"{CELL}.1.local.json"
    assert recovery.of_this_job(file) is None
    assert len(recovery.recover(*folders)) == 1
