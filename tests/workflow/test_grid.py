"""Real Snakemake runs on a tiny grid: what is measured, what is not again, and what is kept."""

from __future__ import annotations

import copy
import itertools
import json
import os
import re
import shutil

import jsonschema
import pytest
import yaml

from gemmgrid.records.run import problems_of
from gemmgrid.records.run_types import Run
from gemmgrid.report.judge.compare import same_rounds
from gemmgrid.report.read.collect import collect
from tests.records.test_run_types import unnamed
from tests.workflow.project import MACHINE, ROOT, TINY, Project, measured

CELL = "gemm.float32.32x32x32.t1"
FILE = f"results/{MACHINE}/numpy-openblas/{CELL}.jsonl"
NOTHING = "Nothing to be done"


@pytest.mark.short
def test_the_first_run_measures_everything_and_makes_the_report(first_run):
    project, output = first_run
    assert project.counts() == {
        "numpy-openblas/gemm.float32.32x32x32.t1": 1,
        "numpy-openblas/gemm.float32.48x48x48.t1": 1,
    }
    assert measured(output) == 2
    assert "GFLOP/s" in output
    assert "reports/index.html" in output
    table = project.table()
    assert list(table["status"]) == ["ok", "ok"]
    assert (table["gflops"] > 0).all()
    assert (table["invocations"] == 2).all()
    assert CELL in project.page()
    assert json.loads((project.folder / f"results/{MACHINE}/machine.json").read_text())["cpu"]


@pytest.mark.short
def test_every_run_is_what_the_schema_says(first_run):
    project, _ = first_run
    schema = yaml.safe_load((ROOT / "workflow/schemas/run.schema.yaml").read_text())
    validator = jsonschema.Draft202012Validator(schema)
    for runs in project.cells().values():
        for run in runs:
            assert [error.message for error in validator.iter_errors(run)] == []
            assert problems_of(run) == [] and unnamed(run, Run) == []


@pytest.mark.short
def test_a_second_run_does_nothing(first_run):
    project, _ = first_run
    assert NOTHING in project.snakemake()
    assert set(project.counts().values()) == {1}


def test_one_cell_again_appends_a_run_and_renders(project):
    output = project.snakemake("-f", FILE)
    assert measured(output) == 1
    assert project.counts() == {
        "numpy-openblas/gemm.float32.32x32x32.t1": 2,
        "numpy-openblas/gemm.float32.48x48x48.t1": 1,
    }
    runs = project.cells()[f"numpy-openblas/{CELL}"]
    assert runs[0]["id"] < runs[1]["id"]
    table = project.table().set_index("cell")
    assert runs[1]["started_at"] <= table.loc[CELL, "measured_at"] <= runs[1]["ended_at"]
    assert len(project.table("runs")) == 3
    assert NOTHING in project.snakemake()


def test_a_grown_grid_measures_only_what_is_new(project):
    study = copy.deepcopy(TINY)
    study["grid"][0]["shapes"] = [32, 48, 16]
    project.configure(study)
    output = project.snakemake()
    assert measured(output) == 1
    assert set(project.counts().values()) == {1}
    assert len(project.table()) == 3


def test_a_shrunk_grid_measures_nothing_and_keeps_the_runs(project):
    study = copy.deepcopy(TINY)
    study["grid"][0]["shapes"] = [32]
    project.configure(study)
    assert measured(project.snakemake()) == 0
    assert len(project.counts()) == 2


def test_cosmetic_edits_measure_nothing(project):
    turned = dict(reversed(list(copy.deepcopy(TINY).items())))
    turned["grid"][0]["shapes"] = ["48x48x48", "32"]
    turned["seed"] = 1
    project.study.write_text("# a comment\n" + yaml.safe_dump(turned))
    registry = project.folder / "config/backends.yaml"
    registry.write_text("# another comment\n" + registry.read_text())
    os.utime(project.folder / "envs/numpy-openblas.txt")
    assert measured(project.snakemake()) == 0
    assert set(project.counts().values()) == {1}


def test_what_changes_the_number_measures_again(project):
    registry = project.folder / "config/backends.yaml"
    documents = yaml.safe_load(registry.read_text())
    documents["numpy-openblas"]["variables"] = {"OPENBLAS_CORETYPE": "Haswell"}
    registry.write_text(yaml.safe_dump(documents))
    assert measured(project.snakemake()) == 2
    for runs in project.cells().values():
        assert [run["library"]["core"] for run in runs][1] == "Haswell"
        assert "OPENBLAS_CORETYPE" in runs[1]["environment"]["variables"]


def test_a_deleted_cell_is_measured_again(project):
    (project.folder / FILE).unlink()
    assert measured(project.snakemake()) == 1


def test_each_backend_runs_in_its_own_environment(project):
    study = copy.deepcopy(TINY)
    study["grid"][0] |= {"backends": ["cblas-openblas", "numpy-openblas"], "shapes": [24]}
    project.configure(study)
    assert measured(project.snakemake()) == 2
    versions = {}
    for backend in ("cblas-openblas", "numpy-openblas"):
        (run,) = project.cells()[f"{backend}/gemm.float32.24x24x24.t1"]
        assert run["status"] == "ok", run["reason"]
        assert run["environment"]["name"] == backend
        assert run["environment"]["prefix"] == str(project.folder / ".envs" / backend)
        versions[backend] = run["library"]["version"]
    assert len(set(versions.values())) == 2


def test_inherited_variables_do_not_reach_the_measured_process(project):
    project.snakemake("-f", FILE, OPENBLAS_CORETYPE="Haswell", OPENBLAS_NUM_THREADS="7")
    run = project.cells()[f"numpy-openblas/{CELL}"][-1]
    assert run["environment"]["dropped_variables"]["OPENBLAS_CORETYPE"] == "Haswell"
    assert run["environment"]["variables"]["OPENBLAS_NUM_THREADS"] == "1"
    assert run["library"]["core"] == project.cells()[f"numpy-openblas/{CELL}"][0]["library"]["core"]


def test_cells_with_two_threads_really_use_two_under_one_core(project):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("hardware: needs two CPUs")
    study = copy.deepcopy(TINY)
    study["grid"][0] |= {"shapes": [768], "threads": [1, 2]}
    study["sampling"] |= {"warmup_s": 0.1, "sample_s": 0.3}
    project.configure(study)
    project.snakemake("--cores", "1")
    table = project.table().set_index("cell")
    for threads in (1, 2):
        assert table.loc[f"gemm.float32.768x768x768.t{threads}", "threads_seen"] == threads


def test_measurements_never_overlap_whatever_cores_says(project):
    output = project.snakemake("--cores", "8", "-F")
    assert measured(output) == 2
    spans = sorted(
        (run["started_at"], run["ended_at"]) for runs in project.cells().values() for run in runs
    )
    for (_, ended), (started, _) in itertools.pairwise(spans):
        assert ended <= started


def test_rounds_spread_the_processes_and_make_one_run(project):
    study = copy.deepcopy(TINY)
    study["sampling"] |= {"invocations": 4, "rounds": 2}
    project.configure(study)
    output = project.snakemake("-F")
    assert measured(output) == 2
    for runs in project.cells().values():
        assert len(runs) == 2
        assert [one["round"] for one in runs[-1]["invocations"]] == [1, 1, 2, 2]
        assert "one-round" not in runs[-1]["flags"]
    moments = sorted(
        (one["started_at"], one["round"])
        for runs in project.cells().values()
        for one in runs[-1]["invocations"]
    )
    assert [number for _, number in moments] == [1] * 4 + [2] * 4
    first, second = collect(project.folder / "results").cells
    assert same_rounds(first, second)
    assert not list((project.folder / "results/.plan").glob("rounds/**/*.json"))
    assert measured(project.snakemake("-f", FILE)) == 1
    assert [len(runs) for runs in project.cells().values()] == [3, 2]
    first, second = collect(project.folder / "results").cells
    assert not same_rounds(first, second)
    assert set(project.table()["interval_kind"]) == {"rounds"}


def test_another_machines_folder_is_compared_without_measuring(project):
    results = project.folder / "results"
    shutil.copytree(results / MACHINE, results / "elsewhere")
    for path in (results / "elsewhere").glob("*/*.jsonl"):
        path.write_text(path.read_text().replace(f'"machine":"{MACHINE}"', '"machine":"elsewhere"'))
    output = project.snakemake("report")
    assert measured(output) == 0
    assert set(project.table()["machine"]) == {MACHINE, "elsewhere"}
    assert "elsewhere" in project.page()
    assert measured(project.snakemake()) == 0
    assert set(project.counts().values()) == {1}


def test_bad_files_are_named_and_never_touched(project):
    folder = project.folder / f"results/{MACHINE}/numpy-openblas"
    bad = {
        "gemm.float32.1x1x1.t1.jsonl": b"\x00\x01\xff binary",
        "gemm.float32.2x2x2.t1.jsonl": b'{"schema": 99, "id": "x"}\n',
        "gemm.float32.3x3x3.t1.jsonl": b'{"schema": 1, "id": ',
        "not a cell.jsonl": b"[]\n",
    }
    for name, content in bad.items():
        (folder / name).write_bytes(content)
    project.snakemake("report")
    for name, content in bad.items():
        assert (folder / name).read_bytes() == content
        assert name in project.page()
    assert list(project.table()["status"]) == ["ok", "ok"]
    assert measured(project.snakemake()) == 0


def test_excluded_and_unsupported_cells_stay_in_the_tables(project):
    study = copy.deepcopy(TINY)
    study["grid"][0] |= {"dtypes": ["float32", "bfloat16"], "shapes": [32, 64]}
    study["exclude"] = [{"n": ">=64", "dtype": "float32", "reason": "too large for a test"}]
    project.configure(study)
    assert measured(project.snakemake()) == 0
    table = project.table().set_index("cell")
    assert table.loc["gemm.bfloat16.32x32x32.t1", "status"] == "unsupported"
    assert "bfloat16" in table.loc["gemm.bfloat16.32x32x32.t1", "reason"]
    assert "too large for a test" in project.page()


def test_a_dry_run_writes_nothing(tmp_path):
    project = Project(tmp_path)
    before = sorted(path for path in tmp_path.rglob("*") if ".snakemake" not in path.parts)
    output = project.snakemake("-n")
    assert re.search(r"output files have to be generated:\n +.*\bmeasure\b", output)
    after = sorted(path for path in tmp_path.rglob("*") if ".snakemake" not in path.parts)
    assert [path for path in after if "__pycache__" not in str(path)] == [
        path for path in before if "__pycache__" not in str(path)
    ]


def test_a_second_workflow_in_the_folder_is_kept_out(project):
    (project.folder / FILE).unlink()
    study = copy.deepcopy(TINY)
    study["sampling"] |= {"warmup_s": 3}
    project.configure(study)
    first = project.start("-F")
    try:
        for line in first.stdout:
            if "cells to measure" in line:
                break
        assert "another gemmgrid workflow is running" in project.snakemake("-F", code=1)
        project.snakemake("report")  # what is there may be looked at meanwhile
        counted = json.loads((project.folder / "results/.plan/progress.json").read_text())
        assert counted["total"] == 2  # still the other workflow's
        output, _ = first.communicate(timeout=120)
        assert first.returncode == 0, output
    finally:
        first.kill()


def test_a_cell_of_another_study_is_named_as_such(project):
    cell = f"results/{MACHINE}/numpy-openblas/gemm.float32.99x99x99.t1.jsonl"
    assert "is no cell of the study tiny" in project.snakemake("-f", cell, code=1)


@pytest.mark.parametrize(
    "name", ["../up", "two words", "quo'te", "$(touch gotcha)", "semi;colon", "UPPER"]
)
def test_hostile_machine_names_are_refused(project, name):
    output = project.snakemake("--config", f"machine={name}", code=1)
    assert "is not a name" in output or "Config" in output or "machine" in output
    assert not (project.folder / "gotcha").exists()
    assert {path.name for path in (project.folder / "results").iterdir()} <= {
        ".plan",
        ".gitkeep",
        MACHINE,
        "tables",
    }


def test_an_unknown_backend_is_refused_with_the_nearest_name(project):
    output = project.snakemake("--config", "backends=numpy-openbals", code=1)
    assert "numpy-openblas" in output
    assert "Traceback" not in output


def test_machines_behind_slurm_are_not_measured_here(project):
    machines = project.folder / "config/machines.yaml"
    machines.write_text("icelake:\n  partition: cpu\n  cpus: 8\n")
    output = project.snakemake("--config", "machines=icelake", "machine=auto", code=1)
    assert "icelake are reached through SLURM: add --profile profiles/slurm" in output
    assert not (project.folder / "results/icelake").exists()
