"""What is needed is decided from the histories, whatever becomes of files' times, of Snakemake's
own notes, of tables, or of a job between its append and its end."""

from __future__ import annotations

import copy
import os
import re
import shutil
import time
from pathlib import Path

from tests.workflow.project import MACHINE, TINY, Project, measured
from tests.workflow.test_grid import CELL, FILE, NOTHING


def contents(project: Project) -> dict[str, bytes]:
    folder = project.folder / "results" / MACHINE
    return {str(path): path.read_bytes() for path in sorted(folder.glob("*/*.jsonl"))}


def spoil(project: Project, module: str, old: str, new: str) -> str:
    """Change the project's copy of our package; returns the text as it was."""
    file = project.folder / "workflow/gemmgrid" / module
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))
    return text


def test_a_cell_that_is_up_to_date_is_measured_only_when_forced(project):
    before = contents(project)
    assert NOTHING in project.snakemake(FILE)
    assert contents(project) == before
    assert measured(project.snakemake("-R", FILE)) == 1
    assert project.counts()[f"numpy-openblas/{CELL}"] == 2


def test_a_raised_protocol_measures_anew_without_snakemakes_notes(project):
    shutil.rmtree(project.folder / ".snakemake")
    for path in (project.folder / "results" / MACHINE).rglob("*.jsonl"):
        os.utime(path, (4e9, 4e9))
    assert NOTHING in project.snakemake()
    spoil(project, "records/cell.py", "\nPROTOCOL = 1\n", "\nPROTOCOL = 2\n")
    assert measured(project.snakemake()) == 2
    for runs in project.cells().values():
        assert [run["cell"]["protocol"] for run in runs] == [1, 2]
    assert NOTHING in project.snakemake()


def test_a_job_that_is_killed_between_append_and_end_has_measured(project):
    before = contents(project)
    whole = spoil(
        project,
        "records/history.py",
        'write_atomically(path, earlier + dumps(run).encode() + b"\\n")',
        'write_atomically(path, earlier + dumps(run).encode() + b"\\n")\n'
        "    os.kill(os.getpid(), 9)",
    )
    project.snakemake("-f", FILE, code=1)
    after = contents(project)
    (changed,) = (path for path in after if after[path] != before[path])
    assert changed.endswith(FILE) and after[changed].startswith(before[changed])
    assert project.counts()[f"numpy-openblas/{CELL}"] == 2
    (project.folder / "workflow/gemmgrid/records/history.py").write_text(whole)
    output = project.snakemake()
    assert measured(output) == 0
    assert contents(project) == after
    assert len(project.table("runs")) == 3


def test_a_job_that_is_killed_before_its_append_leaves_the_history(project):
    before = contents(project)
    whole = spoil(
        project,
        "records/history.py",
        "    write_atomically(path, earlier +",
        "    os.kill(os.getpid(), 9)\n    write_atomically(path, earlier +",
    )
    project.snakemake("-f", FILE, code=1)
    assert contents(project) == before
    (project.folder / "workflow/gemmgrid/records/history.py").write_text(whole)
    assert measured(project.snakemake("-f", FILE)) == 1


def test_rounds_that_a_kill_left_are_not_measured_again(project):
    study = copy.deepcopy(TINY)
    study["sampling"] |= {"invocations": 2, "rounds": 2}
    study["grid"][0]["shapes"] = [24]
    project.configure(study)
    # Killed when it is about to put its rounds together.
    join = "        parts = [part for part in map(self.get, self.rounds) if part]\n"
    kill = "        import os; os.kill(os.getpid(), 9)\n"
    whole = spoil(project, "measure/node/parts.py", join, f"{join}{kill}")
    project.snakemake(code=1)
    kept = sorted((project.folder / "results/.plan/parts").rglob("*.json"))
    assert len(kept) == 2 and not (project.folder / FILE.replace("32x32x32", "24x24x24")).exists()
    (project.folder / "workflow/gemmgrid/measure/node/parts.py").write_text(whole)
    assert measured(project.snakemake()) == 0
    (run,) = project.cells()["numpy-openblas/gemm.float32.24x24x24.t1"]
    assert [one["round"] for one in run["invocations"]] == [1, 2]
    assert not list((project.folder / "results/.plan/parts").rglob("*.json"))


def test_snakemake_deletes_no_history(project):
    before = contents(project)
    project.snakemake("--delete-all-output")
    assert contents(project) == before
    assert not (project.folder / "reports/index.html").exists()
    output = project.snakemake()
    assert measured(output) == 0 and (project.folder / "reports/index.html").exists()


def test_a_table_that_is_missing_is_made_and_so_is_a_page_of_older_code(project):
    table = project.folder / "results/tables/comparisons.csv"
    table.unlink()
    assert measured(project.snakemake()) == 0
    assert table.exists()
    assert NOTHING in project.snakemake()
    page = project.folder / "reports/index.html"
    page.write_text("old")
    time.sleep(0.05)  # a file's time may be as coarse as the kernel's ticks
    (template,) = (project.folder / "workflow/gemmgrid/report/page").glob("templates/overview.html")
    with template.open("a") as file:
        file.write("<!-- pulled -->\n")
    assert measured(project.snakemake()) == 0
    assert "<!-- pulled -->" in page.read_text()


def test_results_that_were_brought_in_are_tabulated_whatever_their_times(project):
    source = project.folder / f"results/{MACHINE}"
    target = project.folder / "results/elsewhere"
    shutil.copytree(source, target)
    for path in target.glob("*/*.jsonl"):
        path.write_text(path.read_text().replace(f'"machine":"{MACHINE}"', '"machine":"elsewhere"'))
        os.utime(path, (1, 1))
    assert measured(project.snakemake()) == 0
    assert set(project.table()["machine"]) == {MACHINE, "elsewhere"}
    assert NOTHING in project.snakemake()


def test_a_table_as_target_measures_what_it_is_of(project):
    (project.folder / FILE).unlink()
    assert measured(project.snakemake("results/tables/cells.csv")) == 1
    assert measured(project.snakemake("reports/index.html")) == 0


def test_looking_starts_nothing(project, tmp_path):
    """Neither git nor anything else is started while files are parsed, and no run is appended."""
    (project.folder / FILE).unlink()
    before = contents(project)
    told, bin_ = tmp_path / "told", tmp_path / "bin"
    bin_.mkdir()
    for name in ("git", "nvidia-smi", "bash", "sh", "conda"):
        real = shutil.which(name)
        (bin_ / name).write_text(
            f'#!/bin/sh\necho "{name} $*" >> "{told}"\n' + (f'exec {real} "$@"\n' if real else "")
        )
        (bin_ / name).chmod(0o755)
    path = f"{bin_}{os.pathsep}{os.environ['PATH']}"
    for arguments in (("-n",), ("--summary",), ("--list-rules",), ("-n", "-f", FILE)):
        project.snakemake(*arguments, PATH=path)
    assert contents(project) == before
    assert not told.exists() or not re.search("git|nvidia", told.read_text())
    assert not Path(project.folder / FILE).exists()
