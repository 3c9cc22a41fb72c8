"""The workflow started from another folder, as a module of another one, and from a repository."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.workflow.project import TINY, Project, environment, measured

MODULE = """
configfile: "study.yaml"

module measuring:
    snakefile: "{snakefile}"
    config: config
    {more}

use rule * from measuring as gemmgrid_*

rule mine:
    default_target: True
    input: rules.gemmgrid_all.input
    output: "mine.txt"
    shell: "wc -l < results/tables/cells.csv > {{output}}"
"""


class Elsewhere(Project):
    """A folder with a study in it and nothing else: the project lies in another one."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder, self.study = folder, folder / "study.yaml"
        self.configure(TINY)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Elsewhere:
    return Elsewhere(tmp_path / "else where")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project as a repository with a tag."""
    folder = Project(tmp_path_factory.mktemp("source")).folder
    who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    for words in (("init", "-q"), ("add", "-A"), (*who, "commit", "-qm", "x"), ("tag", "v1")):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder


def test_another_folder_has_its_own_environments_results_and_config(project, elsewhere):
    snakefile = str(project.folder / "workflow/Snakefile")
    before = sorted(project.folder.rglob("*"))
    output = elsewhere.snakemake("-s", snakefile)
    assert measured(output) == 2
    assert {run["status"] for runs in elsewhere.cells().values() for run in runs} == {"ok"}
    assert (elsewhere.folder / ".envs/numpy-openblas/bin/python").exists()
    assert (elsewhere.folder / "reports/index.html").exists()
    assert sorted(path for path in project.folder.rglob("*") if "__pycache__" not in str(path)) == [
        path for path in before if "__pycache__" not in str(path)
    ]
    # A registry of one's own comes before the project's.
    (elsewhere.folder / "config").mkdir()
    entry = {"adapter": "numpy", "dtypes": ["float32"], "python": sys.executable}
    entry |= {"platforms": ["linux-x86_64", "linux-aarch64"], "blas": "openblas"}
    registry = elsewhere.folder / "config/backends.yaml"
    registry.write_text(yaml.safe_dump({"mine": entry}), encoding="utf-8")
    study = {**TINY, "grid": [{**TINY["grid"][0], "backends": ["mine"]}]}
    elsewhere.configure(study)
    assert measured(elsewhere.snakemake("-s", snakefile)) == 2
    assert "mine/gemm.float32.32x32x32.t1" in elsewhere.cells()


def test_snakemakes_own_word_for_another_folder(project, elsewhere):
    output = project.snakemake(
        *("--directory", str(elsewhere.folder)), *("--configfile", str(elsewhere.study))
    )
    assert measured(output) == 2
    assert len(elsewhere.cells()) == 2


def test_another_workflow_uses_the_rules_under_names_of_its_own(project, elsewhere):
    snakefile = project.folder / "workflow/Snakefile"
    text = MODULE.format(snakefile=snakefile, more="")
    (elsewhere.folder / "Snakefile").write_text(text, encoding="utf-8")
    output = elsewhere.snakemake()
    assert measured(output) == 2
    assert (elsewhere.folder / "mine.txt").read_text().strip() == "3"  # with the line of names
    assert "nothing is stale: 2 cells" in elsewhere.snakemake("gemmgrid_stale")
    assert measured(elsewhere.snakemake("gemmgrid_refresh", "--config", "only=all")) == 2
    prefixed = MODULE.format(snakefile=snakefile, more='prefix: "under"')
    (elsewhere.folder / "Snakefile").write_text(prefixed, encoding="utf-8")
    assert "leave `prefix:` out of the module" in elsewhere.snakemake(code=1)


def test_from_a_repository_with_the_package_installed(source, elsewhere, tmp_path):
    site = tmp_path / "site"
    install = ("-m", "uv", "pip", "install", "-q", "--no-deps", "--no-build-isolation")
    subprocess.run(
        [sys.executable, *install, "--target", str(site), str(source)],
        env=environment(),
        check=True,
    )
    snakefile = f"git+file://{source}/workflow/Snakefile@v1"
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    output = elsewhere.snakemake("-s", snakefile, PYTHONPATH=str(site), **cache)
    assert measured(output) == 2
    for (run,) in elsewhere.cells().values():
        assert run["status"] == "ok"
        used = run["context"]["backend"]["packages"]["numpy"]
        assert used  # of the backend's own environment, not of what lies beside our package
        assert run["environment"]["prefix"].startswith(str(elsewhere.folder))
    said = elsewhere.snakemake(
        *("explain", "-s", snakefile, "--config", "backend=numpy-openblas", "shape=64"),
        PYTHONPATH=str(site),
        **cache,
    )
    assert "gemm" in said


def test_without_anything_that_builds_environments_it_says_so_at_once(project):
    choice = project.folder / "workflow/gemmgrid/plan/environments/uv.py"
    text = choice.read_text(encoding="utf-8")
    nowhere = text.replace('with_name("uv")', 'with_name("no")')
    nowhere = nowhere.replace('find_spec("uv")', "None").replace('which("uv")', 'which("no")')
    choice.write_text(nowhere, encoding="utf-8")
    output = project.snakemake("-F", code=1)
    assert "built with uv" in output and "pip install uv" in output
    assert "Traceback" not in output and measured(output) == 0
