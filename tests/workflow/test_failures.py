"""Cells that fail cost only themselves, and what they failed of is recorded."""

from __future__ import annotations

import copy
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.workflow.project import TINY, Project, measured

FAILING = {
    "segfaults": ("kill -SEGV $$", "crashed", "SIGSEGV"),
    "hangs": ("sleep 1000", "timeout", None),
    "exits": ("echo 'no module named numpy' >&2; exit 3", "env-failed", None),
}


@pytest.fixture(scope="module")
def spoiled(tmp_path_factory) -> tuple[Project, str]:
    """A grid in which one backend works and each of the others fails in its own way."""
    project = Project(tmp_path_factory.mktemp("spoiled"))
    entry = {"adapter": "numpy", "blas": "openblas", "dtypes": ["float32"]}
    entry["platforms"] = ["linux-x86_64", "linux-aarch64", "macos-arm64"]
    for name, (body, _, _) in FAILING.items():
        project.add_backend(name, **entry, python=project.script(name, body))
    project.add_backend("missing", **entry, python="/nowhere/bin/python")
    project.add_backend("unbuildable", **entry, environment="unbuildable")
    (project.folder / "envs/unbuildable.txt").write_text("numpy==0.0.1\n")
    (project.folder / "envs/unbuildable.yaml").write_text("dependencies: []\n")
    # An interpreter that works, with a NumPy that is not what the registry promises.
    other = {**entry, "blas": "mkl"}
    project.add_backend("other-blas", **other, python=sys.executable)
    study = copy.deepcopy(TINY)
    backends = ["numpy-openblas", *FAILING, "missing", "unbuildable", "other-blas"]
    study["grid"][0] |= {"backends": backends, "shapes": [32]}
    study["grid"].append(
        {"routine": "gemm", "backends": ["numpy-openblas"], "shapes": [2_000_000], "threads": [1]}
    )
    study["budget"]["cell_s"] = 2
    study["sampling"]["rounds"] = 2
    project.configure(study)
    return project, project.snakemake(code=1)


@pytest.mark.parametrize("name", FAILING)
def test_how_a_process_died_is_recorded(spoiled, name):
    project, _ = spoiled
    _, status, signal_name = FAILING[name]
    (run,) = project.cells()[f"{name}/gemm.float32.32x32x32.t1"]
    assert run["status"] == status, run["reason"]
    assert run["failure"]["signal"] == signal_name or status == "timeout"


def test_the_exit_code_and_the_end_of_stderr_are_kept(spoiled):
    project, _ = spoiled
    (run,) = project.cells()["exits/gemm.float32.32x32x32.t1"]
    assert run["failure"]["exit_code"] == 3
    assert "no module named numpy" in run["failure"]["stderr_tail"]


@pytest.mark.parametrize(
    ("backend", "words"),
    [
        ("unbuildable", "could not be built"),
        ("other-blas", "promises blas: mkl"),
    ],
)
def test_a_missing_broken_or_other_environment_is_env_failed(spoiled, backend, words):
    project, _ = spoiled
    (run,) = project.cells()[f"{backend}/gemm.float32.32x32x32.t1"]
    assert run["status"] == "env-failed"
    assert words in run["reason"]


def test_a_missing_interpreter_stays_in_the_table_with_its_reason(spoiled):
    project, _ = spoiled
    row = project.table().set_index("backend").loc["missing"]
    assert row["status"] in ("unsupported", "env-failed")
    assert "/nowhere/bin/python" in row["reason"]


def test_a_failed_build_leaves_the_end_of_its_log(spoiled):
    project, _ = spoiled
    (run,) = project.cells()["unbuildable/gemm.float32.32x32x32.t1"]
    assert "numpy==0.0.1" in run["failure"]["stderr_tail"]


def test_a_cell_that_does_not_fit_is_infeasible_and_settled(spoiled):
    project, _ = spoiled
    (run,) = project.cells()["numpy-openblas/gemm.float32.2000000x2000000x2000000.t1"]
    assert run["status"] == "infeasible"
    assert "GB" in run["reason"]
    assert run["invocations"] == []


def test_the_rest_goes_on_and_the_whole_says_what_is_missing(spoiled):
    project, output = spoiled
    (run,) = project.cells()["numpy-openblas/gemm.float32.32x32x32.t1"]
    assert run["status"] == "ok"
    table = project.table().set_index("backend")
    assert table.loc["segfaults", "status"] == "crashed"
    assert table["gflops"].notna().sum() == 1
    assert "snakemake --cores 1" in table.loc["segfaults", "retry"]
    assert "incomplete" in output
    assert "Traceback" not in output
    assert "SIGSEGV" in project.page()


def test_a_second_run_measures_nothing_and_still_says_so(spoiled):
    project, _ = spoiled
    output = project.snakemake(code=1)
    assert measured(output) == 0
    assert "incomplete" in output


def test_a_mended_environment_is_built_and_its_cell_measured_on_request(spoiled):
    project, _ = spoiled
    (project.folder / "envs/unbuildable.txt").write_text("numpy==2.4.6\n")
    cell = "results/here/unbuildable/gemm.float32.32x32x32.t1.jsonl"
    project.snakemake("-f", cell)
    assert [run["status"] for run in project.cells()["unbuildable/gemm.float32.32x32x32.t1"]] == [
        "env-failed",
        "ok",
    ]


def slow(project: Project) -> None:
    study = copy.deepcopy(TINY)
    study["grid"][0] |= {"shapes": [16, 24, 32, 48]}
    study["sampling"] |= {"invocations": 2, "warmup_s": 0.7}
    project.configure(study)


def processes_of(folder: Path) -> list[str]:
    """Commands of the processes that measure for a project in this folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if "gemmgrid.measure" in command and str(folder) in command:
            found.append(command)
    return found


def read_until(process, words: str) -> None:
    for line in process.stdout:
        if words in line:
            return
    raise AssertionError(f"ended before saying {words!r}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_after_a_kill_the_grid_is_completed_and_nothing_is_lost(project, number):
    before = {name: runs[0]["id"] for name, runs in project.cells().items()}
    slow(project)
    process = project.start("-F")
    read_until(process, "[1/4]")
    time.sleep(0.8)
    if number == signal.SIGINT:  # as a terminal does on Ctrl-C: to the whole group
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    if number == signal.SIGTERM:
        process.stdout.read()
    process.wait(timeout=60)
    deadline = time.monotonic() + 10
    while processes_of(project.folder) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert processes_of(project.folder) == []
    for name, runs in project.cells().items():
        if name in before:
            assert runs[0]["id"] == before[name]
    output = project.snakemake()
    assert measured(output) <= 4
    cells = project.cells()
    assert len(cells) == 4
    assert all(runs[-1]["status"] == "ok" for runs in cells.values())
    for name, first in before.items():
        assert cells[name][0]["id"] == first
