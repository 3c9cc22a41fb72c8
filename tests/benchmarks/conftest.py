"""The benchmark programs import one another from their own folder, as they do when started."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "benchmarks"
sys.path.insert(0, str(FOLDER))

Done = subprocess.CompletedProcess[str]


def patiently(command: list[str], **options: Any) -> Done:
    """Run a program; again, twice at most, while a busy machine makes its clock unbelievable.

    A cell whose self-test fails ends as `implausible`: that is about the machine's other work, not
    about the program.
    """
    for _ in range(3):
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=300, check=False, **options
        )
        if "implausible" not in done.stdout:
            break
    return done


@pytest.fixture
def program(tmp_path: Path) -> Callable[..., Done]:
    """Start a program of benchmarks/ as a user does, from another folder than the project's."""

    def start(name: str, *arguments: object, env: dict[str, str] | None = None) -> Done:
        command = [sys.executable, str(FOLDER / name), *map(str, arguments)]
        return patiently(command, cwd=tmp_path, env=env)

    return start
