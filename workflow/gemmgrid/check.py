"""`gemmgrid check`: what config/references.yaml asks of single cells, and whether they keep it.

The plan's side finds the cells that references name, the report's side judges them.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from gemmgrid.plan.change import references
from gemmgrid.report import command as report


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0 where every reference is kept, 1 where one is not or cannot be read."""
    parser = argparse.ArgumentParser(prog="gemmgrid check", description=__doc__)
    parser.add_argument("--results", default="results", help="default: %(default)s")
    parser.add_argument("--root", default=".", help="the project's folder")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="gemmgrid-") as folder:
        resolved = str(Path(folder, "references.jsonl"))
        places = ["--root", given.root, "--results", given.results]
        if code := references.main([*places, "--out", resolved]):
            return code
        return report.main(["check", "--results", given.results, "--references", resolved])
