"""The measured side's command, where files that others share are in the way."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from gemmgrid.measure import __main__ as command
from gemmgrid.measure.machine.this_machine import ThisMachine
from gemmgrid.measure.node import recovery, slurm
from gemmgrid.measure.supervise.progress import Progress
from gemmgrid.records import history
from gemmgrid.records.cell import Cell
from tests.measure.parts import CELL, part

PACKAGE = str(Path(history.__file__).parents[2])
SPEC = {
    **{"cell": Cell.parse(CELL).to_json(), "backend": "numpy-openblas", "adapter": "numpy"},
    **{"device": "cpu", "blas": "openblas", "options": {}, "variables": {}},
}
PROMISE = {"cpus": None, "gpu": False, "platform": None}
PLACE = f"ice/numpy-openblas/{CELL}"


class Folder:
    """A project's results, and the command run on them: its environment is nowhere, so that it
    measures nothing and says so."""

    def __init__(self, root: Path) -> None:
        self.root, self.results = root, root / "results"
        self.file = self.results / f"{PLACE}.jsonl"
        self.parts, self.kept = self.results / ".plan/rounds", self.results / ".plan/kept"
        self.out, self.keep = self.parts / f"{PLACE}.1.json", self.kept / f"{PLACE}.1.json"
        self.study = self.results / ".plan/study.json"
        self.study.parent.mkdir(parents=True)
        study = {"settings": {"invocations": 1, "rounds": 1}, "seed": 1, "orders": {}}
        study |= {"tool": {"version": "0"}, "promises": {"ice": PROMISE}}
        self.study.write_text(json.dumps(study))

    def measuring(self, what: str) -> list[str]:
        return [
            *(what, "--machine", "ice", "--spec", json.dumps(SPEC), "--study", str(self.study)),
            *("--results", str(self.results), "--deploy", "none", "--environment", "e"),
            *("--python", "/no/such/python", "--log", str(self.root / "log")),
            *("--out", str(self.out if what == "round" else self.file)),
            *(("--round", "1") if what == "round" else ()),
        ]

    def run(self, *arguments: object, job: str = "7") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "gemmgrid.measure", *map(str, arguments)],
            # Without a PATH no controller of this machine is asked.
            env={"PYTHONPATH": PACKAGE, "TMPDIR": str(self.root), "SLURM_JOB_ID": job, "PATH": ""},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def runs(self) -> list[str]:
        return [run["id"] for run in history.read(self.file).runs] if self.file.exists() else []


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path)


def arguments(monkeypatch, *words: object) -> Namespace:
    return command._arguments([*map(str, words)])


def test_a_round_on_a_node_is_kept_under_its_jobs_number(folder):
    done = folder.run(*folder.measuring("round"), "--keep", folder.keep)
    assert done.returncode == 0, done.stderr
    (file,) = folder.kept.rglob("*.json")
    assert file == folder.kept / f"{PLACE}.1.7.json"
    run = json.loads(file.read_text())
    assert json.loads(folder.out.read_text()) == run
    assert (run["status"], run["slurm"]["job_id"]) == ("env-failed", "7")
    assert (run["promise"], run["unknown"]) == ({**PROMISE, "broken": []}, {})
    # The same job once more, as after a requeue, and another one.
    assert "env-failed" in folder.run(*folder.measuring("round"), "--keep", folder.keep).stderr
    assert json.loads(folder.out.read_text())["id"] == run["id"]
    folder.run(*folder.measuring("round"), "--keep", folder.keep, job="8")
    assert json.loads(folder.out.read_text())["id"] != run["id"]
    assert len(list(folder.kept.rglob("*.json"))) == 2


@pytest.mark.parametrize("what", ["round", "cell"])
def test_a_machine_json_that_cannot_be_read_says_nothing_about_the_hardware(folder, what):
    file = folder.results / "ice/machine.json"
    file.parent.mkdir()
    file.write_text("{")
    done = folder.run(*folder.measuring(what))
    assert done.returncode == 0, done.stderr
    run = json.loads((folder.out if what == "round" else folder.file).read_text())
    assert "other-machine" not in run["flags"]
    assert run["promise"]["broken"] == []
    assert run["unknown"]["promise"].startswith(f"{file} cannot be read: ")
    assert file.read_text() == "{"


def refuse(*arguments: object, **more: object) -> None:
    raise OSError(errno.EIO, "Input/output error")


@pytest.mark.parametrize("step", ["write", "__init__"])
def test_a_nodes_measurement_is_kept_whatever_the_shared_files_do(folder, monkeypatch, step):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setattr(slurm, "describe", lambda: {"job_id": "7", "exclusive": False})
    monkeypatch.setattr(command, "measure_cell", lambda *given: part(slurm=None, promise=None))
    monkeypatch.setattr(ThisMachine, step, refuse)
    given = arguments(monkeypatch, *folder.measuring("round"), "--keep", folder.keep)
    command._measure(given, lambda: None)
    run = json.loads((folder.kept / f"{PLACE}.1.7.json").read_text())
    assert json.loads(folder.out.read_text()) == run
    assert run["slurm"]["job_id"] == "7"
    assert run["flags"] == [*part()["flags"], "shared-node"]
    assert run["promise"] == ({**PROMISE, "broken": []} if step == "write" else None)
    assert "machine.json could not be kept: [Errno 5]" in run["unknown"]["promise"]
    # Without a file to keep it in, an error of the disk is an error.
    folder.out.unlink()
    for what in ("cell", "round"):
        with pytest.raises(OSError, match="Input/output"):
            command._measure(arguments(monkeypatch, *folder.measuring(what)), lambda: None)
    assert not folder.file.exists() and not folder.out.exists()


@pytest.mark.parametrize("what", ["cell", "round"])
def test_a_log_that_cannot_be_written_costs_no_run(folder, what):
    (folder.root / "log").mkdir()
    done = folder.run(*folder.measuring(what))
    assert done.returncode == 0, done.stderr
    assert "log cannot be written: Is a directory; passed over" in done.stderr
    assert (folder.out if what == "round" else folder.file).exists()


def gather(folder: Folder, *more: object) -> subprocess.CompletedProcess[str]:
    shared = ("--kept", folder.kept, "--progress", folder.root / "progress.json")
    return folder.run("gather", "--out", folder.file, *shared, *more, "--", folder.out)


def test_gathering_what_is_there_already_measures_nothing_and_fails(folder, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    folder.out.parent.mkdir(parents=True)
    folder.out.write_text(json.dumps(part()))
    assert gather(folder).returncode == 0
    before = folder.file.read_bytes()
    recovery.put(folder.keep, part())
    other = recovery.put(folder.keep.with_name(f"{CELL}.2.json"), part(2))
    done = gather(folder, "--log", folder.root / "log")
    assert done.returncode == 1
    told = f"gemmgrid: {folder.file} holds this run already, so nothing was measured now."
    assert done.stderr.startswith(told) and "starting again measures" in done.stderr
    assert (folder.root / "log").read_text() == done.stderr
    assert folder.file.read_bytes() == before
    assert not folder.out.exists()
    assert list(folder.kept.rglob("*.json")) == [other]
    assert len(json.loads((folder.root / "progress.json").read_text())["seconds"]) == 1


@pytest.mark.parametrize("counted", [True, False])
def test_nothing_fails_once_the_run_is_in_its_history(folder, monkeypatch, capfd, counted):
    folder.out.parent.mkdir(parents=True)
    folder.out.write_text(json.dumps(part()))
    recovery.put(folder.keep, part())
    for owner, name in ((Path, "unlink"), (Progress, "say"), (Progress, "_count")):
        monkeypatch.setattr(owner, name, refuse)
    words = ["gather", "--out", folder.file, "--kept", folder.kept, folder.out]
    words += ["--progress", folder.root / "progress.json"] if counted else []
    assert command._append(arguments(monkeypatch, *words)) == 0
    assert folder.runs() == [part()["id"]]
    told = capfd.readouterr().err.splitlines()
    assert len(told) == (3 if counted else 2)
    assert all(line.endswith(": Input/output error; passed over") for line in told)


def test_recovering_names_the_histories_that_grew(folder, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    folder.out.parent.mkdir(parents=True)
    folder.out.write_text(json.dumps(part()))
    recovery.put(folder.keep, part())
    words = ("recover", "--kept", folder.kept, "--results", folder.results)
    done = folder.run(*words, "--parts", folder.parts)
    assert (done.returncode, done.stdout) == (0, f"{folder.file}\n")
    assert done.stderr == "gemmgrid: 1 cell of allocations that did not end well are kept\n"
    assert not folder.out.exists()
    done = folder.run(*words)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
