"""Explain one expression: start its backend's Python with the environment a measurement would get.

`gemmgrid explain --python PATH --threads N --variables JSON -- ARGUMENTS`
becomes `PATH -m gemmgrid.measure.dispatch explain ARGUMENTS --threads N`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from gemmgrid.measure.supervise.environment import measured_environment
from gemmgrid.system.project import importable


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="gemmgrid explain", description=__doc__)
    parser.add_argument("--python", required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--device", required=True)
    parser.add_argument("--variables", type=json.loads, default={})
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    given = parser.parse_args(arguments)
    python = shutil.which(given.python)
    if python is None:
        print(f"explain: there is no Python at {given.python}", file=sys.stderr)
        return 2
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env = measured_environment(given.threads, given.device, given.variables, inherited).env
    command = [python, "-s", "-m", "gemmgrid.measure.dispatch", "explain"]
    passed = [one for one in given.arguments if one != "--"]
    fixed = ["--threads", str(given.threads), "--device", given.device]
    with tempfile.TemporaryDirectory(prefix="gemmgrid-") as folder:
        env["PYTHONPATH"] = str(importable(Path(folder)))
        return subprocess.run([*command, *passed, *fixed], env=env, check=False).returncode
