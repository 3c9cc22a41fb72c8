"""Theoretical rates of GPUs: a row each in gpus.csv, whose first lines are the sources, each with
its document and, in brackets, where that was read.

Dense rates only: figures "with sparsity" are halved. Where a document gives two figures, the one
without tensor cores is `float32`, and `float64` is the tensor cores' where they do float64.
A GPU that is not here has no known peak: nothing is guessed from its relatives.

"derived" are rates computed as units x operations a clock x clock; they stand where the document
rounded down or contradicts itself, since a peak that is too low condemns true rates.
Operations a clock and SM, for float16 with float32 sums: Volta and Turing 1024, A100 2048, Hopper
4096, B200 8192, L4 and L40S 1024, GeForce of the same designs 512. TF32 has half of that. The
L40S datasheet has 362.05 for float16, which is the L40's rate, and 733 with sparsity. What Apple
announced is rounded down (M1: 2.6); its float units have no float64, and its cores no matrix units
before the M5.

L2 of Hopper: 50 MB with five memory stacks; H200 and H100 NVL with six report the whole die's 60,
which is taken for H200 NVL and GH200 too. L40S: documents differ (48, 96); the whole AD102's
stands. Too much cache condemns less.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TERA = 1e12


@dataclass(frozen=True)
class GpuPeak:
    """Rates in TFLOP/s at `clock_mhz`; None where the hardware has no such mode.

    name           pattern that NVML's or macOS's whole name matches
    clock_mhz      lowest of the clocks that the rates were computed with; None if not published
    float16        with float32 sums, float16_sums with float16 sums where those are faster
    gbps           memory bandwidth in GB/s; cache_mb the last cache before it, in MB of 2**20
    """

    name: str
    clock_mhz: float | None
    float64: float | None
    float32: float
    tf32: float | None
    float16: float | None
    bfloat16: float | None
    gbps: float
    cache_mb: float | None
    float16_sums: float | None
    cores: float | None  # GPU cores that the rates are for, where the name leaves it open
    source: str


def _table() -> tuple[GpuPeak, ...]:
    lines = Path(__file__).with_name("gpus.csv").read_text(encoding="utf-8").splitlines()
    sources = dict(line[2:].split(": ", 1) for line in lines if line.startswith("# "))
    keys, *rows = (line.split(",") for line in lines if not line.startswith("#"))
    found = []
    for values in rows:
        row = dict(zip(keys, values, strict=True))
        name, source = row.pop("name"), sources[row.pop("source")]
        rates: dict[str, Any] = {key: float(text) if text else None for key, text in row.items()}
        found.append(GpuPeak(name, source=source, **rates))
    return tuple(found)


GPUS = _table()


def lookup(name: str | None) -> GpuPeak | None:
    """The row whose pattern matches the whole name, or None."""
    return next((row for row in GPUS if name and re.fullmatch(row.name, name)), None)
