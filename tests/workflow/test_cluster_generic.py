"""Another batch system than SLURM can send allocations.

`qsub`, `qstat` and `qdel` are test doubles: shell scripts that run a job in the background here.
"""

from __future__ import annotations

import copy
import os
import signal
import sys
import time
from pathlib import Path

import pytest
import yaml

from tests.workflow.project import TINY, Project

QSUB = """#!/bin/sh
for script; do :; done
echo "$@" >> "$QUEUE/asked"
id=$(( $(ls "$QUEUE" | grep -c log) + 1 )).pbs
: > "$QUEUE/$id.log"
( setsid sh "$script" > "$QUEUE/$id.log" 2>&1 & echo $! > "$QUEUE/$id.pid"; wait $!
  echo $? > "$QUEUE/$id.exit" ) > /dev/null 2>&1 < /dev/null &
echo "$id"
"""
QSTAT = """#!/bin/sh
for id; do :; done
echo "Job Id: $id"
[ -e "$QUEUE/$id.exit" ] || { echo "    job_state = R"; exit; }
echo "    job_state = F"
echo "    Exit_status = $(cat "$QUEUE/$id.exit")"
"""
QDEL = """#!/bin/sh
for id; do echo "$id" >> "$QUEUE/cancelled"; kill -s TERM -- -"$(cat "$QUEUE/$id.pid")"; done
"""


class PbsProject(Project):
    @property
    def command(self) -> list[str]:
        return [
            *(sys.executable, "-m", "snakemake", "--profile", "profiles/cluster-generic"),
            *("--seconds-between-status-checks", "1", "--latency-wait", "5"),
        ]


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the doubles keep what they did."""
    folder = tmp_path / "queue"
    for place in (folder, tmp_path / "bin"):
        place.mkdir()
    for name, text in (("qsub", QSUB), ("qstat", QSTAT), ("qdel", QDEL)):
        script = tmp_path / "bin" / name
        script.write_text(text, encoding="utf-8")
        script.chmod(0o755)
    monkeypatch.setenv("QUEUE", str(folder))
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    return folder


@pytest.fixture
def project(tmp_path: Path, queue: Path) -> PbsProject:
    one = PbsProject(tmp_path / "project")
    entry = {"node": {"partition": "workq", "cpus": 1}}
    (one.folder / "config/machines.yaml").write_text(yaml.safe_dump(entry), encoding="utf-8")
    study = copy.deepcopy(TINY)
    del study["machine"]
    one.configure({**study, "machines": ["node"]})
    return one


def test_a_block_of_cells_is_one_job_of_another_batch_system(project, queue):
    project.snakemake()
    (asked,) = (queue / "asked").read_text(encoding="utf-8").splitlines()
    assert "-q workq -l place=excl -l select=1:ncpus=1:mem=" in asked
    runs = project.cells("node")
    assert [run["status"] for each in runs.values() for run in each] == ["ok", "ok"]
    assert not list((project.folder / "results/.plan/parts").rglob("*.json"))
    assert "Nothing to be done" in project.snakemake()


def test_ctrl_c_cancels_and_the_same_command_goes_on(project, queue):
    study = yaml.safe_load(project.study.read_text(encoding="utf-8"))
    study["sampling"] = {**study["sampling"], "sample_s": 1.0, "interval": 0.0001}
    project.configure(study)
    process = project.start()
    parts = project.folder / "results/.plan/parts"
    end = time.monotonic() + 120
    while not list(parts.rglob("*.json")):
        assert time.monotonic() < end, "no cell was done"
        time.sleep(0.2)
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=120)
    assert process.returncode != 0, output
    assert (queue / "cancelled").exists(), output
    project.snakemake()
    runs = project.cells("node")
    assert [len(each) for each in runs.values()] == [1, 1]
