"""What lies on disk and is out of date, and the folder that one workflow has to itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gemmgrid.plan.command import main
from gemmgrid.plan.jobs import files
from gemmgrid.plan.jobs.blocks import divide
from gemmgrid.plan.jobs.commands import files_named, read_block, sources
from gemmgrid.plan.jobs.files import Folder, plan_is_due, tables_are_due
from gemmgrid.plan.jobs.needed import Histories
from gemmgrid.records import stamp
from gemmgrid.records.context import digest
from tests.measure.parts import part
from tests.plan.conftest import block

PACKAGE = str(Path(files.__file__).parents[3])
STUDY = {"machine": "here", "grid": [block(shapes=[16, 32], backends=["numpy-openblas"])]}


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def write_plan(project, *more: str) -> int:
    words = ["--root", str(project.root), "--config", json.dumps(STUDY), "--deploy", "venv"]
    return main([*words, *more])


def test_a_plan_is_due_until_it_lies_there(project, here):
    plan = project.plan(STUDY)
    wanted = plan.whole_digest([])
    assert plan_is_due(wanted)
    assert write_plan(project) == 0
    assert not plan_is_due(wanted)
    for changed in (
        plan.whole_digest(["study.yaml"]),
        project.plan({**STUDY, "seed": 7}).whole_digest([]),
        project.plan({**STUDY, "sampling": {"invocations": 9}}).whole_digest([]),
    ):
        assert plan_is_due(changed)
    Path(files.PLAN).unlink()
    assert plan_is_due(wanted)


def test_the_plan_on_disk_has_the_blocks_that_the_start_found(project, here, capfd):
    plan = project.plan(STUDY)
    blocks = divide(plan.cells, Histories(plan), Path(files.PARTS), {})
    names = digest([one.name for one in blocks])
    assert write_plan(project, "--turns", "0-1", "--blocks", names) == 0
    assert "2 of 2 cells to measure in 5 rounds" in capfd.readouterr().err
    assert [read_block(Path(files.BLOCKS), one.name) for one in blocks] == blocks
    with pytest.raises(LookupError):
        read_block(Path(files.BLOCKS), "0-00")
    assert json.loads(Path(files.STATE, "progress.json").read_bytes())["total"] == 2 * 5
    # A run that came in between makes the start's blocks others.
    history = Path(plan.cells[0].path)
    history.parent.mkdir(parents=True)
    run = {"id": "new", "cell": {}, "status": "ok", "flags": [], "spec": "x"}
    history.write_text(json.dumps(run) + "\n", encoding="utf-8")
    assert write_plan(project, "--turns", "0-1", "--blocks", names) == 1
    assert "start again" in capfd.readouterr().err


def test_cells_that_keep_a_run_of_other_sampling_are_told(project, here, capfd):
    cell, other = project.plan(STUDY).cells
    for one, settings in ((cell, {"rounds": 1, "sample_s": 9}), (other, {"rounds": 5})):
        path = Path(one.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = {**part(name=one.name), "settings": settings}
        path.write_text(json.dumps(whole) + "\n", encoding="utf-8")
    assert write_plan(project) == 0
    said = capfd.readouterr().err
    assert "1 cell measured with other sampling (rounds 1 → 5, sample_s 9 → 0.15)" in said
    assert "-F, or refresh --config only=all" in said
    assert write_plan(project, "--turns", "0-1") == 0
    assert "other sampling" not in capfd.readouterr().err  # they are measured again


def test_what_no_run_will_use_is_removed(project, here):
    plan = project.plan(STUDY)
    (cell, _) = plan.cells
    place = Path(files.PARTS, cell.machine, cell.backend)
    place.mkdir(parents=True)
    occasion = Histories(plan).occasion(cell)
    kept = [place / f"{cell.name}.{occasion}.1.json", place / "dot.float32.9.t1.00.1.json"]
    gone = [place / f"{cell.name}.0123456789abcdef.1.json", Path(files.STATE, "tokens/here/0-a.1")]
    gone[1].parent.mkdir(parents=True)
    for file in (*kept, *gone):
        file.touch()
    assert write_plan(project) == 0
    assert [file.exists() for file in (*kept, *gone)] == [True, True, False, False]


def test_tables_are_due_when_one_is_missing_or_the_results_are_others(here):
    assert tables_are_due("plan")
    for name in files.TABLES:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()
    assert tables_are_due("plan")
    Path(files.STATE).mkdir(parents=True)
    assert stamp.main(["--plan", "plan", "--out", files.STAMP]) == 0
    assert not tables_are_due("plan") and tables_are_due("another")
    Path(files.TABLES[-1]).unlink()
    assert tables_are_due("plan")


def test_one_workflow_has_the_folder_and_it_goes_with_its_process(here):
    program = (
        "import sys; from gemmgrid.plan.jobs.files import Folder; folder = Folder()\n"
        "print(folder.hold(), flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": PACKAGE},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert other.stdout is not None and other.stdout.readline() == "True\n"
    folder = Folder()
    due = here / files.STATE / "due/plan.1"
    due.parent.mkdir(parents=True)
    due.touch()
    assert not folder.hold()
    folder.forget("2")
    assert due.exists()  # it is the other workflow's
    other.kill()
    other.communicate()
    assert folder.hold() and folder.hold()
    folder.forget("2")
    assert not due.exists()


def test_files_that_a_command_line_names():
    known = {"results/a/b/c.jsonl": 1}
    words = ["-f", "./results/a/b/c.jsonl", "results/a/b/d.jsonl", files.PAGE, files.PAGE]
    assert files_named(words, known, [files.PAGE]) == ["./results/a/b/c.jsonl", files.PAGE]


def test_sources_are_files_that_the_report_is_made_by():
    found = sources(PACKAGE, "report/*.py", "report/page")
    assert f"{PACKAGE}/gemmgrid/report/tables.py" in found
    assert f"{PACKAGE}/gemmgrid/report/page/templates/overview.html" in found
    assert not [name for name in found if name.endswith(".pyc") or not Path(name).is_file()]
