"""The Makefile: what was given on its command line arrives as it was typed; nothing else counts."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gemmgrid import make
from tests.measure.interpreters import ROOT

# In place of .venv/bin/python: what it was started with, a line of JSON.
RECORDER = f"""#!{sys.executable}
import json, os, sys
names = ("PYTHONPATH", "STUDY", "TARGETS", "ARGUMENTS", "DEPLOY", "AS", "MACHINE", "OUT", "CC")
kept = {{name: os.environ[name] for name in names if os.environ.get(name)}}
with open("started.jsonl", "a", encoding="utf-8") as file:
    file.write(json.dumps([sys.argv[1:], kept]) + "\\n")
"""


class Folder:
    """A project whose environment is made, with a test double for its Python."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / ".venv/bin").mkdir(parents=True)
        (path / "requirements").mkdir()
        for name in ("run.txt", "test.txt"):
            (path / "requirements" / name).touch()
        (path / "pyproject.toml").touch()
        for name in ("ready", "ready-to-test"):
            (path / ".venv" / name).touch()
        shutil.copy(ROOT / "Makefile", path)
        python = path / ".venv/bin/python"
        python.write_text(RECORDER, encoding="utf-8")
        python.chmod(0o755)

    def make(self, *words: str, code: int = 0, **outside: str) -> tuple[list[str], dict[str, str]]:
        """Start make; what it started: the arguments and the variables."""
        told = self.path / "started.jsonl"
        told.unlink(missing_ok=True)
        outer = {"MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL", "PYTHONPATH", "ARGUMENTS"}
        env = {name: value for name, value in os.environ.items() if name not in outer}
        done = subprocess.run(
            ["make", *words],
            cwd=self.path,
            env=env | outside,
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )
        assert done.returncode == code, done.stderr
        if code:
            return [done.stderr], {}
        arguments, variables = json.loads(told.read_text(encoding="utf-8").splitlines()[-1])
        assert not list(self.path.rglob("PWN"))
        return arguments, variables


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / 'a $(touch PWN) "{x}" it\'s')


def test_a_bundle_is_taken_in_under_its_own_name(folder: Folder) -> None:
    arguments, _ = folder.make("unpack", "BUNDLE=b.zip")
    assert arguments == ["-m", "gemmgrid", "unpack", "--", "b.zip"]
    arguments, _ = folder.make("unpack", "BUNDLE=b.zip", "AS=other one")
    assert arguments == ["-m", "gemmgrid", "unpack", "--as=other one", "--", "b.zip"]


@pytest.mark.parametrize(
    "name", ["x$(shell touch PWN).zip", "$(touch PWN)", "`touch PWN`", "it's mine.zip", 'a "b" {x}']
)
def test_a_value_arrives_as_it_was_typed(folder: Folder, name: str) -> None:
    assert folder.make("unpack", f"BUNDLE={name}")[0][-1] == name
    assert folder.make("bundle", f"OUT={name}", f"MACHINE={name}")[0][2:] == [
        *("bundle", f"--machine={name}", f"--out={name}")
    ]
    assert folder.make("bench", f"ARGUMENTS={name}")[1]["ARGUMENTS"] == name


def test_what_the_environment_says_is_not_asked(folder: Folder) -> None:
    outside = dict.fromkeys(
        ["AS", "MACHINE", "OUT", "IDENTIFY", "STUDY", "ARGUMENTS", "TARGETS"], "x"
    )
    assert folder.make("bundle", **outside)[0] == ["-m", "gemmgrid", "bundle"]
    assert folder.make("unpack", "BUNDLE=b", **outside)[0][2:] == ["unpack", "--", "b"]
    arguments, variables = folder.make("bench", **outside, CC="cc")
    assert arguments == ["-m", "gemmgrid", "make", "bench"]
    assert variables == {"PYTHONPATH": "workflow", "CC": "cc"}


@pytest.mark.parametrize(
    ("value", "named"), [("1", True), ("yes", True), ("0", False), ("", False)]
)
def test_identify_takes_a_no(folder: Folder, value: str, named: bool) -> None:
    assert ("--identify" in folder.make("bundle", f"IDENTIFY={value}")[0]) == named


def test_a_bundle_without_its_name_is_asked_for(folder: Folder) -> None:
    assert "which bundle?" in folder.make("unpack", code=2)[0][0]


def test_the_users_python_path_is_kept_behind_ours(folder: Folder) -> None:
    assert folder.make("doctor", PYTHONPATH="/opt/site")[1]["PYTHONPATH"] == "workflow:/opt/site"


def started(target: str, **given: str) -> str:
    return shlex.join(make.command(target, given))


@pytest.fixture
def studies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config/studies").mkdir(parents=True)
    for name in ("exercise", "levels"):
        (tmp_path / f"config/studies/{name}.yaml").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(make.shutil, "which", lambda name: None)


@pytest.mark.usefixtures("studies")
def test_targets_are_no_settings() -> None:
    assert started("bench", TARGETS="x y") == "snakemake --cores 1 x y"
    assert started("bench", TARGETS="x", DEPLOY="none", STUDY="levels") == (
        "snakemake --cores 1 x --configfile config/studies/levels.yaml --config deploy=none"
    )


@pytest.mark.usefixtures("studies")
def test_settings_of_both_kinds_go_as_one() -> None:
    line = started("bench", DEPLOY="none", ARGUMENTS="--config seed=2 -n --configfile my.yaml")
    assert line == "snakemake --cores 1 -n --configfile my.yaml --config deploy=none seed=2"
    both = started("bench", STUDY="levels", ARGUMENTS="--configfile 'my own.yaml' -- x")
    assert both == ("snakemake --cores 1 x --configfile config/studies/levels.yaml 'my own.yaml'")
    assert started("bench", DEPLOY="conda", ARGUMENTS="--config deploy=none seed=2") == (
        "snakemake --cores 1 --config deploy=none seed=2"
    )


@pytest.mark.usefixtures("studies")
def test_deployments() -> None:
    assert started("bench") == "snakemake --cores 1"
    assert started("bench", DEPLOY="conda") == "snakemake --cores 1 --use-conda"
    assert started("bench", DEPLOY="vnv") == "snakemake --cores 1 --config deploy=vnv"
    assert started("report", DEPLOY="conda") == "snakemake --cores 1 report --config deploy=conda"
    assert started("stale", DEPLOY="conda") == "snakemake --cores 1 stale --use-conda"


@pytest.mark.usefixtures("studies")
def test_a_list_with_blanks_is_one_word() -> None:
    assert started("slurm-plan", MACHINES="a, b c", CELLS="50", CONFIG="rounds=5") == (
        "snakemake --profile profiles/slurm --dry-run "
        "--config machines=a,b,c cells_per_allocation=50 rounds=5"
    )
    assert started("slurm", DEPLOY="none") == (
        "snakemake --profile profiles/slurm --config deploy=none"
    )


@pytest.mark.usefixtures("studies")
def test_studies_are_listed_where_one_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(make.WrongError, match=r"none of exercise, levels\. Did you mean 'ex"):
        started("bench", STUDY="exercize")
    with pytest.raises(make.WrongError, match="ARGUMENTS: No closing quotation"):
        started("bench", ARGUMENTS="it's")


def test_the_arguments_of_the_tests_are_words() -> None:
    assert make.command("test-all", {"ARGUMENTS": "-k 'a or b' $(touch PWN)"}) == [
        *("pytest", "-k", "a or b", "$(touch", "PWN)")
    ]
    assert make.command("test", {"ARGUMENTS": "-x"}) == ["pytest", "-m", "not long", "-x"]
