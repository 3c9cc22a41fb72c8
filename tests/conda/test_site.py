"""A site's own stack: an interpreter that the registry names, or environment modules.

The `module` command is a test double: a shell function that does what Environment Modules and Lmod
do as far as this goes, setting the PATH and LOADEDMODULES. Snakemake calls it as it would theirs.
"""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from gemmgrid.plan.config.errors import ConfigError
from gemmgrid.plan.config.registry import load_registry
from gemmgrid.plan.environments.build import build
from tests.conda.project import ROOT, UNTIL, Project

NUMPY = "numpy-openblas"
MODULE = """() {{
    [ "$1" = purge ] && {{ export LOADEDMODULES=; return 0; }}
    shift
    for name in "$@"; do
        [ -d "{folder}/$name" ] || {{ echo "no modulefile for '$name'" >&2; return 1; }}
        version=$(ls "{folder}/$name" | head -n 1)
        export PATH="{folder}/$name/$version/bin:$PATH"
        export LOADEDMODULES="${{LOADEDMODULES:+$LOADEDMODULES:}}$name/$version"
    done
}}"""


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with NumPy that belongs to nobody's environment; its prefix."""
    into = tmp_path_factory.mktemp("site")
    made = build("numpy-openblas", ROOT / "envs", into, out=io.StringIO())
    assert made["status"] == "ok", made["reason"]
    return into / "numpy-openblas"


@pytest.fixture
def modules(site: Path, tmp_path: Path) -> dict[str, str]:
    """Variables of a shell in which `module load python-numpy` works."""
    folder = tmp_path / "modules"
    (folder / "python-numpy").mkdir(parents=True)
    (folder / "python-numpy/2.4").symlink_to(site)
    return {"BASH_FUNC_module%%": MODULE.format(folder=folder)}


def test_a_sites_interpreter_beside_condas(project: Project, site: Path) -> None:
    project.register("numpy-ours", python=str(site / "bin/python"), blas="openblas")
    targets = [project.target(name) for name in (NUMPY, "numpy-ours")]
    done = project.run("--use-conda", *UNTIL, "--", *targets)
    assert done.returncode == 0, done.stdout
    [conda], [ours] = project.runs(NUMPY), project.runs("numpy-ours")
    assert [conda["status"], ours["status"]] == ["ok", "ok"]
    assert (conda["environment"]["deploy"], ours["environment"]["deploy"]) == ("conda", "none")
    assert ours["library"]["file"].startswith(str(site))
    assert not conda["library"]["file"].startswith(str(site))
    assert len(project.environments()) == 1


def test_modules_bring_the_interpreter(
    project: Project, site: Path, modules: dict[str, str]
) -> None:
    project.register("numpy-module", modules=["python-numpy"], blas="openblas")
    done = project.measure("numpy-module", "--use-envmodules", **modules)
    assert done.returncode == 0, done.stdout
    assert "Activating environment modules: python-numpy" in done.stdout
    [run] = project.runs("numpy-module")
    assert run["status"] == "ok", run["reason"]
    assert os.path.realpath(run["library"]["file"]).startswith(str(site))


def test_a_module_that_does_not_load_is_recorded(project: Project, modules: dict[str, str]) -> None:
    """The shell goes on then, and would measure whatever python3 is on the PATH."""
    project.register("numpy-module", modules=["python-numpy", "mkl-site"])
    project.measure("numpy-module", "--use-envmodules", **modules)
    [run] = project.runs("numpy-module")
    assert run["status"] == "env-failed" and not run["invocations"]
    assert "could not be loaded: mkl-site (loaded: python-numpy/2.4)" in run["reason"]


def test_without_the_module_command(project: Project) -> None:
    project.register("numpy-module", modules=["python-numpy"])
    project.measure("numpy-module", "--use-envmodules")
    [run] = project.runs("numpy-module")
    assert run["status"] == "env-failed"
    assert "could not be loaded: python-numpy (loaded: none)" in run["reason"]


def test_without_envmodules_the_plan_says_what_to_add(project: Project) -> None:
    project.register("numpy-module", modules=["python-numpy"])
    done = project.run("--use-conda", "--dry-run", "--config", "backends=numpy-module")
    assert done.returncode != 0
    assert "its environment modules (python-numpy) are loaded only with --use-envmodules" in (
        done.stdout
    )


@pytest.mark.parametrize("name", ["a b", "a;rm -rf ~", "$(id)", "'x'", "", "-f"])
def test_names_that_a_shell_could_misread_are_refused(project: Project, name: str) -> None:
    """Snakemake puts them into a shell command as they are."""
    project.register("numpy-module", modules=[name])
    with pytest.raises(ConfigError, match="modules"):
        load_registry(project.folder)


def test_modules_and_an_interpreter_of_theirs(project: Project, site: Path) -> None:
    project.register("numpy-module", modules=["gcc/13", "python-numpy"], python=str(site / "bin/x"))
    backend = load_registry(project.folder)["numpy-module"]
    assert backend.modules == ("gcc/13", "python-numpy") and backend.of_site
