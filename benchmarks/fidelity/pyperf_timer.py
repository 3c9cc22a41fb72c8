"""pyperf on a cell's product, in the numpy-openblas environment with pyperf beside it.

usage: pyperf_timer.py CELL --processes 1 -o FILE …     (pyperf's own options)
The operands are gemmgrid's own, so that both time the same memory layout. pyperf starts this file
again for each of its processes.
"""

from __future__ import annotations

import argparse

import numpy as np
import pyperf

from gemmgrid.measure.invocation import operands
from gemmgrid.records.cell import Cell


def _pass_on(command: list[str], given: argparse.Namespace) -> None:
    command.append(given.cell)


def main() -> None:
    runner = pyperf.Runner(add_cmdline_args=_pass_on)
    runner.argparser.add_argument("cell")
    given = operands.make(Cell.parse(runner.parse_args().cell), 1)
    runner.timeit(
        "matmul",
        stmt="np.matmul(A, B, out=C)",
        globals={"np": np, "A": given.A, "B": given.B, "C": given.C},
    )


if __name__ == "__main__":
    main()
