"""Cells that were sent and never came back: a run that says so, with SLURM's own reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from gemmgrid.measure.node import lost
from gemmgrid.records import history
from gemmgrid.records.cell import Cell
from gemmgrid.report.read.collect import collect
from tests.measure.parts import part

SCHEMA = yaml.safe_load(
    (Path(__file__).parents[3] / "workflow/schemas/run.schema.yaml").read_text(encoding="utf-8")
)
CELL = Cell.parse("gemm.float32.512x512x512.t64.alpha0.5")
REASON = "TIMEOUT: SLURM job 9 on ice1 reached its time limit of 2 minutes"
SETTINGS = {
    "invocations": 5,
    "rounds": 1,
    "warmup_s": 0.1,
    "sample_s": 0.25,
    "min_samples": 10,
    "max_samples": 2000,
    "interval": 0.01,
    "batch_s": 0.001,
    "budget_s": 60,
    "memory_fraction": 0.8,
    "evidence": True,
}
PROMISE = {"cpus": 64, "gpu": False, "platform": "linux-x86_64"}


STUDY = {
    "study": "tiny",
    "settings": SETTINGS,
    "seed": 1,
    "tool": {"version": "0.1.0", "commit": None, "dirty": None},
    "promises": {"ice": PROMISE},
}
SPEC = {
    "cell": CELL.to_json(),
    "backend": "numpy-openblas",
    "adapter": "numpy",
    "device": "cpu",
    "blas": "openblas",
    "options": {},
    "variables": {"OMP_WAIT_POLICY": "passive"},
}
ENDING = {"reason": REASON, "job_id": "9", "node": "ice1", "partition": "cpu"}


@pytest.fixture
def project(tmp_path):
    return tmp_path


def entry(project):
    path = project / "results/ice/numpy-openblas" / f"{CELL.name}.jsonl"
    return {"path": str(path), "spec": SPEC, "order": 17, "occasion": "aa", "latest": None}


def record(project, machine="ice", deploy="venv", **ending):
    places = {"numpy-openblas": {"environment": "numpy-openblas", "deploy": deploy}}
    told = entry(project)
    run = lost.record(machine, told, {**STUDY, "backends": places}, ENDING | ending)
    (*_, written) = history.read(Path(told["path"])).runs
    assert written == json.loads(json.dumps(run))
    problems = Draft202012Validator(SCHEMA).iter_errors(written)
    assert [f"{error.json_path}: {error.message}" for error in problems] == []
    return written


def test_what_is_recorded(project):
    run = record(project)
    assert (run["status"], run["reason"]) == ("lost", REASON)
    assert (run["machine"], run["backend"], run["order"]) == ("ice", "numpy-openblas", 17)
    assert Cell.from_json(run["cell"]) == CELL
    assert (run["invocations"], run["flags"], run["library"]) == ([], [], None)
    assert run["started_at"] <= run["ended_at"]
    assert run["settings"] == SETTINGS
    assert run["environment"]["variables"] == {"OMP_WAIT_POLICY": "passive"}
    assert run["promise"] == {**PROMISE, "broken": []}


def test_where_it_was_lost(project):
    run = record(project)
    where = run["slurm"]
    assert (where["job_id"], where["node"], where["partition"]) == ("9", "ice1", "cpu")
    assert where["exclusive"] is None
    assert where["unknown"].keys() == {key for key, value in where.items() if value is None}
    assert run["host"] == {"id": None}
    assert run["unknown"] == {"host.id": "the job did not live to tell"}


def test_a_job_that_was_never_given_a_node(project):
    where = record(project, node=None)["slurm"]
    assert where["node"] is None
    assert "node" in where["unknown"]


def test_a_job_that_slurm_refused(project):
    run = record(project, job_id=None, reason="SLURM did not take the job: no such account")
    assert (run["status"], run["slurm"]) == ("lost", None)


def test_a_machine_without_an_entry_promises_nothing(project):
    run = record(project, machine="somewhere")
    assert run["promise"] is None


@pytest.mark.parametrize("deploy", ["venv", "conda", "none"])
def test_however_the_environment_is_made(project, deploy):
    assert record(project, deploy=deploy)["environment"]["deploy"] == deploy


def test_the_history_before_it_stays(project):
    path = Path(entry(project)["path"])
    history.append(path, part(name=CELL.name))
    with path.open("ab") as file:
        file.write(b'{"torn')
    before = path.read_bytes()
    record(project)
    record(project)
    assert path.read_bytes().startswith(before + b"\n")
    assert [run["status"] for run in history.read(path).runs] == ["ok", "lost", "lost"]


def test_the_report_tells_the_reason(project):
    record(project)
    found = collect(project / "results")
    (row,) = found.cells
    assert (row["status"], row["reason"]) == ("lost", REASON)
    assert (row["machine"], row["cell"], row["gflops"]) == ("ice", CELL.name, None)
    assert row["retry"]
    assert (row.values.get("apart_from"), found.foreign) == (None, [])
    # Only that there is no machine.json: no node has come back yet.
    assert [
        problem.problem for problem in found.problems if "machine.json" not in problem.file
    ] == []


def test_a_name_that_leaves_the_results_is_refused(project):
    with pytest.raises(ValueError, match="name"):
        record(project, machine="../x")
    assert not Path(entry(project)["path"]).exists()
