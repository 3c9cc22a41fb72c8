from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from gemmgrid.records import commands


def test_what_goes_without_saying_is_not_said() -> None:
    line = commands.words(["report"], deploy="venv", configfiles=["config/config.yaml"])
    assert line == ["snakemake", "--cores", "1", "report"]


def test_greedy_options_come_after_targets_and_before_another_option() -> None:
    line = commands.words(
        ["a", "b"],
        deploy="conda",
        slurm=True,
        others=["-n"],
        configfiles=["x.yaml", "y.yaml"],
        config=["seed=2"],
        again="results/c.jsonl",
    )
    assert line == shlex.split(
        "snakemake --profile profiles/slurm a b -n --use-conda --configfile x.yaml y.yaml "
        "--config seed=2 -f results/c.jsonl"
    )


def test_a_deployment_that_was_given_is_not_given_twice() -> None:
    assert commands.words(deploy="none", config=["deploy=venv"])[-2:] == ["--config", "deploy=venv"]
    assert commands.words(deploy="none", config=["seed=2"])[-2:] == ["seed=2", "deploy=none"]


def test_a_shell_reads_back_every_word() -> None:
    line = ["snakemake", "expr=A @ B.T", "it's $(here).yaml"]
    assert shlex.split(commands.text(line)) == line


def test_the_study_as_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files, config = commands.study_as_given(
        [tmp_path / "my study.yaml", "/elsewhere/x.yaml"],
        {"only": "stale", "seed": 2},
        without=["only"],
    )
    assert files == ["my study.yaml", "/elsewhere/x.yaml"]
    assert config == ["seed=2"]
