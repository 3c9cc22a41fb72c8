"""The one command: every name leads somewhere, and asking what there is loads nothing."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gemmgrid.__main__ import COMMANDS, main
from tests.measure.interpreters import ROOT
from tests.report import synthetic


def start(*arguments: str, python: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-s", *(python or ("-m", "gemmgrid")), *arguments],
        env={"PYTHONPATH": str(ROOT / "workflow"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    listed = re.findall(r"^  (\w+) +\S", capsys.readouterr().out, re.M)
    assert listed == list(COMMANDS)
    assert main([]) == 0


def test_a_command_that_does_not_exist_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reprot"]) == 2
    assert "'reprot' is no command" in capsys.readouterr().err


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "make"])
def test_each_command_tells_its_arguments(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    # explain shows --help of its own, all others that of a parser named after the command.
    assert capsys.readouterr().out.startswith("usage: gemmgrid ")


def test_asking_for_help_loads_no_wing() -> None:
    program = (
        "import json, sys; from gemmgrid.__main__ import main; main(['--help']); "
        "print(json.dumps([name for name in sys.modules if name.startswith('gemmgrid')]))"
    )
    done = start(python=("-c", program))
    found = sorted(json.loads(done.stdout.splitlines()[-1]))
    assert found == ["gemmgrid", "gemmgrid.__main__", "gemmgrid.logged"]


def test_it_starts_as_a_module() -> None:
    done = start("no-such")
    assert done.returncode == 2 and "no command" in done.stderr
    assert start().stdout.startswith("usage: gemmgrid COMMAND")


def test_references_are_checked_by_one_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config").mkdir()
    for name in ("backends.yaml", "machines.yaml"):
        shutil.copy(ROOT / "config" / name, tmp_path / "config")
    results = ["--results", str(tmp_path / "results")]
    check = ["check", "--root", str(tmp_path), *results]
    synthetic.write_machine(tmp_path / "results", synthetic.Machine("machine-a"))
    synthetic.write_run(tmp_path / "results", synthetic.run(synthetic.gemm(64), rounds=5))
    assert main(check) == 1
    assert "config/references.yaml is missing" in capsys.readouterr().err
    assert main(["references", *results, "--out", str(tmp_path / "config/references.yaml")]) == 0
    assert main(check) == 0
    slow = synthetic.run(synthetic.gemm(64), gflops=10.0, rounds=5)
    slow["ended_at"] = "2026-11-30T13:00:00.000000Z"
    synthetic.write_run(tmp_path / "results", slow | {"id": "later"})
    assert main(check) == 1
    assert synthetic.gemm(64).name in capsys.readouterr().out
