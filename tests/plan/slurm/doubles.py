"""Test doubles of SLURM's commands: small scripts in a folder that is put in front of PATH."""

from __future__ import annotations

from pathlib import Path

import pytest


def command(monkeypatch: pytest.MonkeyPatch, folder: Path, name: str, body: str) -> None:
    """Put a shell script on PATH under a command's name."""
    script = folder / name
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
