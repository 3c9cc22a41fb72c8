"""`python -m gemmgrid.plan.slurm …` asks whether SLURM would take what is to be sent.

Ends with exit code 1, and says what is wrong, where it would not.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from gemmgrid.plan.config.machines import load_machines
from gemmgrid.plan.slurm import checks, forecast, site


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m gemmgrid.plan.slurm", description=__doc__)
    parser.add_argument("--root", type=Path, required=True, help="folder with config/")
    parser.add_argument("--allocations", required=True, help="one for each machine, as JSON")
    parser.add_argument("--cell-minutes", type=int, required=True, help="of one cell at most")
    parser.add_argument("words", nargs="*", help="for sbatch, that the command line adds")
    given = parser.parse_args(arguments)
    found = checks.check(
        load_machines(given.root),
        forecast.loads(given.allocations),
        site.read(),
        given.cell_minutes,
        given.root,
        given.words,
    )
    found.say()
    for problem in found.problems:
        print(problem, file=sys.stderr)
    return 1 if found.problems else 0


if __name__ == "__main__":
    sys.exit(main())
