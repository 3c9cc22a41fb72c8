"""`gemmgrid build NAME --envs envs --into .envs --marker FILE` builds a venv; `gemmgrid conda NAME
--prefix FOLDER --envs envs --marker FILE` describes what Snakemake has made.

Exits with 0 whether or not the environment could be built: the marker says how it went, so that a
broken environment costs its own cells and nothing else. Only an interruption, or a marker that
cannot be written, ends otherwise.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

from gemmgrid.plan.environments.build import LIMIT_S, build, write_marker
from gemmgrid.plan.environments.conda import describe


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="gemmgrid")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("build", help="build one backend's virtual environment with uv")
    command.add_argument("name", help="the environment: envs/NAME.txt")
    command.add_argument("--envs", type=Path, default=Path("envs"), help="folder of the .txt files")
    command.add_argument("--into", type=Path, default=Path(".envs"), help="folder of the results")
    command.add_argument(
        "--marker", type=Path, required=True, help="JSON file that says how it went"
    )
    command.add_argument("--limit-s", type=float, default=LIMIT_S, help="give up after this long")
    command = commands.add_parser("conda", help="describe the conda environment that is active")
    command.add_argument("name", help="the environment: envs/NAME.yaml")
    command.add_argument(
        "--envs", type=Path, default=Path("envs"), help="folder of the .yaml files"
    )
    command.add_argument("--prefix", type=Path, required=True, help="the environment that is meant")
    command.add_argument("--marker", type=Path, required=True, help="JSON file that describes it")
    given = parser.parse_args(arguments)

    signal.signal(signal.SIGTERM, _interrupted)
    try:
        if given.command == "conda":
            marker = describe(given.name, given.prefix, given.envs)
        else:
            marker = build(given.name, given.envs, given.into, limit_s=given.limit_s)
    except KeyboardInterrupt:
        return 130
    try:
        write_marker(given.marker, marker)
    except OSError as error:
        print(f"{given.marker}: the marker could not be written: {error}", file=sys.stderr)
        return 1
    return 0


def _interrupted(number: int, frame: Any) -> NoReturn:
    raise KeyboardInterrupt
