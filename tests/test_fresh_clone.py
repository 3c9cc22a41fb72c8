"""The README's own commands, in a fresh clone in another folder, as a newcomer would type them."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from gemmgrid.records import history
from tests.workflow.project import Project, environment


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that git knows, or would know, in a folder with a blank in its name; no .venv."""
    folder = tmp_path_factory.mktemp("clone") / "a clone"
    folder.mkdir()
    project = Project(folder)
    project.study.unlink()
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    return folder


def make(clone: Path, *arguments: str, code: int = 0) -> str:
    """Run make as from a shell in which no environment is active."""
    path = os.pathsep.join(
        part for part in os.environ["PATH"].split(os.pathsep) if ".venv" not in part
    )
    outer = {"VIRTUAL_ENV", "MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL", "ARGUMENTS"}
    variables = {k: v for k, v in environment(PATH=path).items() if k not in outer}
    done = subprocess.run(
        ["make", *arguments],
        cwd=clone,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=1200,
    )
    assert done.returncode == code, done.stdout
    return done.stdout


def test_make_bench_measures_this_machine_and_says_where_the_report_is(clone):
    output = make(clone, "bench", "DEPLOY=venv")
    assert "setting up .venv" in output
    assert re.search(r"\[ *\d+/\d+\] numpy-openblas", output)
    assert f"The report: {clone}/reports/index.html" in output
    assert (clone / "reports/index.html").stat().st_size > 50_000
    runs = [history.read(path).runs for path in clone.glob("results/*/*/*.jsonl")]
    assert len(runs) > 20
    for (run,) in runs:
        assert run["status"] == "ok", (run["backend"], run["cell"]["name"], run["reason"])
        assert Path(run["environment"]["prefix"]).name == run["backend"]


def test_a_second_make_bench_does_nothing_but_say_so(clone):
    output = make(clone, "bench", "DEPLOY=venv")
    assert "Nothing to be done" in output
    assert "The report:" in output


def test_nothing_is_installed_outside_the_folder(clone):
    made = {path.name for path in clone.iterdir()}
    assert {".venv", ".envs", "results", "reports"} <= made
    prefixes = {
        run["environment"]["prefix"]
        for path in clone.glob("results/*/*/*.jsonl")
        for run in history.read(path).runs
    }
    assert all(prefix.startswith(str(clone)) for prefix in prefixes)


def test_make_test_sets_itself_up_and_passes(clone):
    tests = clone / "tests/records"
    tests.mkdir(parents=True)
    for path in (Path(__file__).parent / "records").glob("*.py"):
        (tests / path.name).write_text(path.read_text())
    output = make(clone, "test", "ARGUMENTS=tests/records -q")
    assert re.search(r"\d+ passed", output)


def test_make_doctor_and_help_answer(clone):
    assert "make bench" in make(clone, "help")
    assert make(clone, "doctor").strip()
