"""torch.utils.benchmark on a cell's product, in the torch-cpu environment.

usage: torch_timer.py CELL SECONDS     (prints {"median_s": …, "samples": …} as JSON)
The operands are gemmgrid's own, so that both time the same memory layout.
"""

from __future__ import annotations

import json
import sys

import torch
from torch.utils import benchmark

from gemmgrid.measure.invocation import operands
from gemmgrid.records.cell import Cell


def main(name: str, seconds: float) -> None:
    cell = Cell.parse(name)
    given = operands.make(cell, 1)
    A, B, C = (torch.from_numpy(array) for array in (given.A, given.B, given.C))
    timer = benchmark.Timer(
        stmt="torch.matmul(A, B, out=C)",
        globals={"torch": torch, "A": A, "B": B, "C": C},
        num_threads=cell.threads,
    )
    taken = timer.blocked_autorange(min_run_time=seconds)
    print(json.dumps({"median_s": taken.median, "samples": len(taken.times)}))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
