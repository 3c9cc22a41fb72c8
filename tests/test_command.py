"""The one command: every name leads somewhere, and asking what there is loads nothing."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from gemmgrid.__main__ import COMMANDS, main
from tests.measure.interpreters import ROOT


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
    assert json.loads(done.stdout.splitlines()[-1]) == ["gemmgrid", "gemmgrid.__main__"]


def test_it_starts_as_a_module() -> None:
    done = start("no-such")
    assert done.returncode == 2 and "no command" in done.stderr
    assert start().stdout.startswith("usage: gemmgrid COMMAND")
