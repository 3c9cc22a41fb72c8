"""The measured side's command, also where files that others share are in the way."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from gemmgrid.measure import command
from gemmgrid.measure.machine.this_machine import ThisMachine
from gemmgrid.measure.node import slurm
from gemmgrid.measure.supervise.progress import Progress
from gemmgrid.records import files, history
from gemmgrid.records.cell import Cell
from gemmgrid.records.latest import spec_digest
from tests.measure.parts import CELL, part

PACKAGE = str(Path(history.__file__).parents[2])
SPEC = {
    **{"cell": Cell.parse(CELL).to_json(), "backend": "numpy-openblas", "adapter": "numpy"},
    **{"device": "cpu", "blas": "openblas", "options": {}, "variables": {}},
}
PROMISE = {"cpus": None, "gpu": False, "platform": None}
OTHER = CELL.replace("512x512x512", "64x64x64")
NAME = "0-aa11"


class Folder:
    """A project's results, and the command run on them: its environment is nowhere, so that it
    measures nothing and says so."""

    def __init__(self, root: Path, rounds: int = 1, cells: tuple[str, ...] = (CELL,)) -> None:
        self.root, self.state = root, root / "results/.plan"
        self.parts, self.token = self.state / "parts", self.state / "tokens/ice/t"
        self.file = self.history(CELL)
        self.state.mkdir(parents=True)
        place = {"deploy": "none", "environment": "e", "python": "/no/python", "modules": []}
        self.study = {
            **{"settings": {"invocations": rounds, "rounds": rounds}, "seed": 1},
            **{"tool": {"version": "0"}, "promises": {"ice": PROMISE}},
            "backends": {"numpy-openblas": place},
        }
        (self.state / "study.json").write_text(json.dumps(self.study))
        entries = [
            {
                **{"path": f"results/ice/numpy-openblas/{name}.jsonl", "order": order},
                **{"spec": {**SPEC, "cell": Cell.parse(name).to_json()}},
                **{"occasion": "aa11", "latest": None},
            }
            for order, name in enumerate(cells)
        ]
        self.block = {"block": NAME, "machine": "ice", "rounds": [1], "cells": entries}
        other = {**self.block, "block": "0-bb22"}
        lines = [json.dumps(one, separators=(",", ":")) for one in (other, self.block)]
        (self.state / "blocks.jsonl").write_text("\n".join(lines) + "\n")

    def history(self, name: str) -> Path:
        return self.root / f"results/ice/numpy-openblas/{name}.jsonl"

    def part(self, number: int = 1, name: str = CELL) -> Path:
        return self.parts / f"ice/numpy-openblas/{name}.aa11.{number}.json"

    def keep(self, number: int = 1, rounds: int = 1, **changed: object) -> dict:
        run = part(number, rounds, **changed)
        files.write_atomically(self.part(number), json.dumps(run).encode())
        return run

    def words(self, what: str = "block", *more: object) -> list[str]:
        common = [what, NAME, "--token", str(self.token), "--log", str(self.root / "log")]
        return [*common, *(("--round", "1") if what == "block" else ()), *map(str, more)]

    def run(self, *arguments: str, job: str | None = "7") -> subprocess.CompletedProcess[str]:
        # Without a PATH no controller of this machine is asked.
        env = {"PYTHONPATH": PACKAGE, "TMPDIR": str(self.root), "PATH": ""}
        return subprocess.run(
            [sys.executable, "-m", "gemmgrid", *arguments],
            cwd=self.root,
            env={**env, **({"SLURM_JOB_ID": job} if job else {})},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def runs(self, name: str = CELL) -> list[dict]:
        file = self.history(name)
        return history.read(file).runs if file.exists() else []


@pytest.fixture
def folder(tmp_path, monkeypatch):
    made = Folder(tmp_path)
    monkeypatch.chdir(tmp_path)
    return made


def given(folder: Folder, *more: object) -> Namespace:
    return command._parser().parse_args(folder.words("block", *more))


def measure(folder: Folder, *more: object) -> None:
    command.measure_block(folder.block, folder.study, given(folder, *more), lambda: None)


def refuse(*arguments: object, **more: object) -> None:
    raise OSError(errno.EIO, "Input/output error")


def test_here_a_run_goes_into_its_history_at_once(folder):
    done = folder.run(*folder.words(), job=None)
    assert done.returncode == 0, done.stderr
    (run,) = folder.runs()
    assert (run["status"], run["order"]) == ("env-failed", 0)
    assert run["spec"] == spec_digest(json.dumps(SPEC, sort_keys=True, separators=(",", ":")))
    assert folder.token.exists() and not list(folder.parts.rglob("*.json"))
    # The same job once more, as after a kill before its token was written.
    before = folder.file.read_bytes()
    assert folder.run(*folder.words(), job=None).returncode == 0
    assert folder.file.read_bytes() == before


def test_on_a_node_it_is_kept_and_a_requeued_job_takes_it_up(folder):
    done = folder.run(*folder.words("block", "--keep-only"))
    assert done.returncode == 0, done.stderr
    run = json.loads(folder.part().read_text())
    assert (run["status"], run["slurm"]["job_id"]) == ("env-failed", "7")
    assert (run["promise"], run["unknown"]) == ({**PROMISE, "broken": []}, {})
    again = folder.run(*folder.words("block", "--keep-only"), job="8")
    assert "env-failed" in again.stderr
    assert json.loads(folder.part().read_text())["id"] == run["id"]
    assert folder.runs() == []


def test_a_block_measures_all_of_its_cells(tmp_path):
    folder = Folder(tmp_path, cells=(OTHER, CELL))
    assert folder.run(*folder.words(), job=None).returncode == 0
    assert [len(folder.runs(name)) for name in (OTHER, CELL)] == [1, 1]
    assert folder.runs(OTHER)[0]["id"] < folder.runs(CELL)[0]["id"]


def test_here_the_last_of_the_rounds_makes_the_run(tmp_path):
    folder = Folder(tmp_path, rounds=2)
    folder.keep(2, 2)
    done = folder.run(*folder.words(), job=None)
    assert done.returncode == 0, done.stderr
    (run,) = folder.runs()
    assert run["status"] == "env-failed"  # as its first round was
    assert not list(folder.parts.rglob("*.json"))


def test_a_failed_round_that_a_kill_left_unjoined_makes_the_run(tmp_path):
    folder = Folder(tmp_path, rounds=3)
    folder.keep(2, 3, status="crashed", reason="SIGSEGV", invocations=[])
    done = folder.run(*folder.words(), job=None)  # its round is the first one, which is not there
    assert done.returncode == 0, done.stderr
    (run,) = folder.runs()
    assert (run["status"], run["reason"]) == ("crashed", "SIGSEGV")
    assert "SIGSEGV" in done.stderr
    assert not list(folder.parts.rglob("*.json"))


def test_a_block_of_another_start_is_named(folder):
    with pytest.raises(KeyError, match="another start of the workflow"):
        command.find_block(folder.state / "blocks.jsonl", "0-cc33")


def test_settling_appends_what_is_whole_and_records_the_rest_as_lost(tmp_path):
    folder = Folder(tmp_path, cells=(CELL, OTHER))
    kept = folder.keep()
    token = tmp_path / "ended"
    ending = {"reason": "TIMEOUT: SLURM job 9", "job_id": "9", "node": "ice1", "partition": "cpu"}
    token.write_text(json.dumps({"lost": ending}))
    done = folder.run(*folder.words("settle", "--tokens", token), job=None)
    assert done.returncode == 0, done.stderr
    assert [run["id"] for run in folder.runs()] == [kept["id"]]
    (lost,) = folder.runs(OTHER)
    assert (lost["status"], lost["reason"]) == ("lost", "TIMEOUT: SLURM job 9")
    assert lost["slurm"]["node"] == "ice1"
    assert not folder.part().exists() and folder.token.exists()
    assert len(json.loads((folder.state / "progress.json").read_text())["seconds"]) == 2
    before = [folder.history(name).read_bytes() for name in (CELL, OTHER)]
    folder.run(*folder.words("settle", "--tokens", token), job=None)
    assert [folder.history(name).read_bytes() for name in (CELL, OTHER)] == before


def test_a_machine_json_that_cannot_be_read_says_nothing_about_the_hardware(folder):
    file = folder.root / "results/ice/machine.json"
    file.parent.mkdir()
    file.write_text("{")
    assert folder.run(*folder.words()).returncode == 0
    (run,) = folder.runs()
    assert "other-machine" not in run["flags"]
    assert run["promise"]["broken"] == []
    assert run["unknown"]["promise"].startswith("results/ice/machine.json cannot be read: ")
    assert file.read_text() == "{"


@pytest.mark.parametrize("step", ["write", "__init__"])
def test_a_nodes_measurement_is_kept_whatever_the_shared_files_do(folder, monkeypatch, step):
    monkeypatch.setattr(slurm, "describe", lambda: {"job_id": "7", "exclusive": False})
    monkeypatch.setattr(command, "measure_cell", lambda *given: part(slurm=None, promise=None))
    monkeypatch.setattr(ThisMachine, step, refuse)
    measure(folder, "--keep-only")
    run = json.loads(folder.part().read_text())
    assert run["slurm"]["job_id"] == "7"
    assert run["flags"] == [*part()["flags"], "shared-node"]
    assert run["promise"] == ({**PROMISE, "broken": []} if step == "write" else None)
    assert "machine.json could not be kept: [Errno 5]" in run["unknown"]["promise"]
    # Without a file to keep it in, an error of the disk is an error.
    folder.part().unlink()
    with pytest.raises(OSError, match="Input/output"):
        measure(folder)
    assert not folder.file.exists() and not folder.part().exists()


def test_another_turn_on_a_node_is_kept_as_well(tmp_path, monkeypatch):
    folder = Folder(tmp_path, rounds=2)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(slurm, "describe", lambda: {**part()["slurm"], "exclusive": True})
    monkeypatch.setattr(command, "LATER_S", 0.0)
    monkeypatch.setattr(command, "lacking", lambda found: 1)
    monkeypatch.setattr(command, "measure_cell", lambda *given: part(1, 2))
    more = part(1, 2)
    more["invocations"][0]["index"] = 2
    monkeypatch.setattr(command, "measure_more", lambda *given: more)
    monkeypatch.setattr(ThisMachine, "write", refuse)
    measure(folder, "--keep-only")
    run = json.loads(folder.part().read_text())
    assert [(one["index"], one["round"]) for one in run["invocations"]] == [(0, 1), (2, 1)]
    assert "could not be kept" in run["unknown"]["promise"]


@pytest.mark.parametrize("more", [(), ("--keep-only",)])
def test_a_log_that_cannot_be_written_costs_no_run(folder, more):
    (folder.root / "log").mkdir()
    done = folder.run(*folder.words("block", *more))
    assert done.returncode == 0, done.stderr
    assert "log cannot be written: Is a directory; passed over" in done.stderr
    assert (folder.part() if more else folder.file).exists()


def test_nothing_fails_once_the_run_is_in_its_history(folder, monkeypatch, capfd):
    folder.keep()
    for owner, name in ((Path, "unlink"), (Progress, "say"), (Progress, "_count")):
        monkeypatch.setattr(owner, name, refuse)
    words = command._parser().parse_args(folder.words("settle"))
    command.settle_block(folder.block, folder.study, words)
    assert [run["id"] for run in folder.runs()] == [part()["id"]]
    told = capfd.readouterr().err.splitlines()
    assert len(told) == 4
    assert all(line.endswith(": Input/output error; passed over") for line in told)


def test_a_full_disk_is_told_and_leaves_the_history(folder, monkeypatch, capfd):
    history.append(folder.file, part(id="before"))
    before = folder.file.read_bytes()
    folder.block["cells"][0]["latest"] = "before"
    lines = json.dumps(folder.block, separators=(",", ":"))
    (folder.state / "blocks.jsonl").write_text(f"{lines}\n")

    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(history, "append", full)
    monkeypatch.setattr(command, "measure_cell", lambda *given: part(slurm=None, promise=None))
    assert command.main(folder.words()) == 1
    assert "the run could not be kept: No space left on device" in capfd.readouterr().err
    assert folder.file.read_bytes() == before and not folder.token.exists()
