"""`snakemake --use-conda`, through every situation that its user gets into.

With the test double of conda in conda's place (tests/conda/double): the solver and the installer
are rattler's real ones, the packages were made from PyPI's wheels. What is shown is how Snakemake,
the env files and gemmgrid act together, not that conda-forge has these packages.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from tests.conda.project import CELL, MACHINE, UNTIL, Project

NUMPY = "numpy-openblas"
TARGET = f"results/{MACHINE}/{NUMPY}/{CELL}.jsonl"
CREATED = "Creating conda environment"


def made(project: Project) -> Path:
    """The one environment of a project in which it was made."""
    [prefix] = project.environments()
    return prefix


def test_environments_made_beforehand_are_used_and_a_second_start_does_nothing(
    project: Project,
) -> None:
    """As on a cluster's login node, before jobs run where there is no network."""
    done = project.run("--use-conda", "--conda-create-envs-only", *UNTIL, "--", TARGET)
    assert done.returncode == 0, done.stdout
    assert list(project.environments().values()) == [
        (project.folder / f"envs/{NUMPY}.yaml").read_text()
    ]
    assert not project.runs(NUMPY)
    done = project.measure(NUMPY)
    assert CREATED not in done.stdout
    again = project.measure(NUMPY)
    assert again.returncode == 0 and CREATED not in again.stdout
    assert [run["status"] for run in project.runs(NUMPY)] == ["ok"]


def test_one_that_cannot_be_solved_is_named_with_the_way_on(project: Project) -> None:
    """The channel has no SciPy. Snakemake makes all environments before it measures anything."""
    project.measure(NUMPY)
    project.study_of_size(96)
    cell = CELL.replace("64x64x64", "96x96x96")
    targets = [project.target(name, cell) for name in (NUMPY, "scipy-openblas")]
    done = project.run("--use-conda", *UNTIL, "--", *targets)
    assert done.returncode != 0
    assert "No candidates were found for scipy ==1.17.1" in done.stdout
    assert "nothing was measured now: scipy-openblas needs it." in done.stdout
    [others] = re.findall("--config backends=(.*)", done.stdout)
    assert NUMPY in others.split(",") and "scipy-openblas" not in others.split(",")
    assert [run["status"] for run in project.runs(NUMPY)] == ["ok"]  # what was there stays
    assert not project.runs(NUMPY, cell)
    done = project.run("--use-conda", "--config", f"backends={others}", *UNTIL, "--", targets[0])
    assert done.returncode == 0, done.stdout
    assert [run["status"] for run in project.runs(NUMPY, cell)] == ["ok"]


def test_a_broken_environment_is_recorded_and_a_half_made_one_is_made_anew(
    project: Project,
) -> None:
    project.measure(NUMPY)
    prefix = made(project)
    (prefix / "bin/python").unlink()
    done = project.measure(NUMPY, "--force")
    assert done.returncode == 0  # a recorded failure, like any other
    run = project.runs(NUMPY)[-1]
    assert run["status"] == "env-failed"
    assert "is broken: it has no bin/python" in run["reason"]
    assert f"conda environment {prefix}" in run["reason"] and "Remove that folder" in run["reason"]
    # What a killed creation leaves: a folder without Snakemake's mark of completion.
    prefix.with_suffix(".env_setup_done").unlink()
    done = project.measure(NUMPY, "--force")
    assert "Removing incomplete Conda environment" in done.stdout and CREATED in done.stdout
    assert [run["status"] for run in project.runs(NUMPY)] == ["ok", "env-failed", "ok"]


def test_a_failed_activation_measures_nothing(project: Project) -> None:
    """Snakemake goes on where `activate` fails, with whatever Python the PATH has."""
    project.measure(NUMPY)
    prefix = made(project)
    other = project.folder / "base"
    shutil.copytree(prefix, other, symlinks=True)
    shutil.rmtree(prefix / "conda-meta")
    path = f"{other / 'bin'}{os.pathsep}{project.variables['PATH']}"
    for started_in, active in (
        ({}, "none is active"),
        ({"CONDA_PREFIX": str(other)}, f"{other} is active in its place"),
    ):
        done = project.measure(NUMPY, "--force", PATH=path, **started_in)
        assert done.returncode == 0, done.stdout
        run = project.runs(NUMPY)[-1]
        assert run["status"] == "env-failed" and not run["invocations"]
        assert f"{prefix} was not activated: {active}" in run["reason"]


def test_without_conda_our_own_words_come_first(project: Project) -> None:
    without = project.variables["PATH"].split(os.pathsep, 1)[1]
    done = project.run("--use-conda", PATH=without)
    assert done.returncode != 0
    assert "there is no `conda` on the PATH" in done.stdout
    assert "install it (https://conda-forge.org/download)" in done.stdout
    assert "leave out --use-conda" in done.stdout and "DEPLOY=venv" in done.stdout
    assert "Traceback" not in done.stdout and "Error running conda info" not in done.stdout


def test_a_dry_run_says_what_it_would_make_and_makes_nothing(project: Project) -> None:
    """Here with a conda that is a function of the shell, as `conda init` leaves it, exported."""
    program = shutil.which("conda", path=project.variables["PATH"])
    without = project.variables["PATH"].split(os.pathsep, 1)[1]
    function = {"BASH_FUNC_conda%%": f'() {{ "{program}" "$@"; }}'}
    done = project.run("--use-conda", "--dry-run", *UNTIL, "--", TARGET, PATH=without, **function)
    assert done.returncode == 0, done.stdout
    assert f"Conda environment envs/{NUMPY}.yaml will be created." in done.stdout
    assert project.environments() == {} and not project.runs(NUMPY)


def test_a_changed_file_makes_a_new_environment_and_measures_nothing(project: Project) -> None:
    """The cells that are stale by it are another command's business."""
    project.measure(NUMPY)
    [before] = project.environments()
    file = project.folder / f"envs/{NUMPY}.yaml"
    file.write_text(file.read_text() + "  - libcblas 3.11.*\n")
    started = project.measure(NUMPY).stdout
    assert CREATED not in started and len(project.runs(NUMPY)) == 1
    assert CREATED in project.measure(NUMPY, "--force").stdout
    assert CREATED not in project.measure(NUMPY, "--force").stdout
    first, second, _ = (run["environment"] for run in project.runs(NUMPY))
    assert first["prefix"] == str(before) != second["prefix"]
    assert first["lock_hash"] != second["lock_hash"]
    assert set(project.environments()) == {before, Path(second["prefix"])}


def test_dropping_use_conda_afterwards_measures_nothing_again(project: Project) -> None:
    """And the next measurement without it happens in a venv, and says so."""
    project.measure(NUMPY)
    done = project.run(*UNTIL, "--", TARGET)
    assert done.returncode == 0, done.stdout
    assert len(project.runs(NUMPY)) == 1
    done = project.run("--force", *UNTIL, "--", TARGET)
    assert done.returncode == 0, done.stdout
    conda, venv = (run["environment"] for run in project.runs(NUMPY))
    assert (conda["deploy"], venv["deploy"]) == ("conda", "venv")
    assert venv["prefix"] == str(project.folder / f".envs/{NUMPY}")
    assert [run["status"] for run in project.runs(NUMPY)] == ["ok", "ok"]


def test_environments_elsewhere(project: Project, tmp_path: Path) -> None:
    prefix = tmp_path / "shared environments"
    done = project.measure(NUMPY, "--conda-prefix", str(prefix))
    assert done.returncode == 0, done.stdout
    [run] = project.runs(NUMPY)
    assert run["status"] == "ok", run["reason"]
    assert Path(run["environment"]["prefix"]).parent == prefix
    assert not project.environments()


def test_a_moved_checkout_makes_its_environments_anew_and_measures_nothing(
    project: Project, tmp_path: Path
) -> None:
    project.measure(NUMPY)
    project.folder = project.folder.rename(tmp_path / "moved")
    done = project.measure(NUMPY)
    assert done.returncode == 0 and CREATED not in done.stdout
    [run] = project.runs(NUMPY)
    old = Path(run["environment"]["prefix"])
    assert CREATED in project.measure(NUMPY, "--force").stdout
    assert project.runs(NUMPY)[-1]["status"] == "ok"
    assert old.is_relative_to(tmp_path / "project") and not old.exists()
    prefixes = {path.name for path in project.environments()}
    assert old.name in prefixes and len(prefixes) == 2


def test_a_pin_file_is_used_and_its_packages_are_what_runs(project: Project) -> None:
    """envs/<name>.<platform>.pin.txt, as `snakedeploy pin-conda-envs` writes it."""
    project.measure(NUMPY)
    prefix = made(project)
    platform = project.conda("info", "--json")["platform"]
    explicit = project.conda_text("list", "--explicit", "--prefix", str(prefix))
    (project.folder / f"envs/{NUMPY}.{platform}.pin.txt").write_text(explicit)
    done = project.measure(NUMPY, "--force")
    assert f"Using pinnings from {project.folder}/envs/{NUMPY}.{platform}.pin.txt" in done.stdout
    first, second = (run["environment"] for run in project.runs(NUMPY))
    assert second["packages"] == first["packages"]
    assert second["lock_hash"] != first["lock_hash"]
