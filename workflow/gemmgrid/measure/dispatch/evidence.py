"""One record of what ran under a product, and how each part of it is known.

    evidence = observe(lambda: np.matmul(A, B, out=C), Asked("float32", "gemm"),
                       operands={"A": memory_of(A), "B": memory_of(B)})
    evidence["routines"][0]["symbol"]      # "scipy_cblas_sgemm64_"
    evidence["kernels"][0]["name"]         # "sgemm_kernel_SKYLAKEX"

The record's form is described in docs/evidence.md.
"""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gemmgrid.measure.dispatch import documented, hidden_work, proof, verdict
from gemmgrid.measure.dispatch.hidden_work import Asked, Memory
from gemmgrid.measure.dispatch.watch import Watched, Watcher


def observe(
    run: Callable[[], None],
    asked: Asked,
    *,
    operands: Mapping[str, Memory] | None = None,
    device: str = "cpu",
    blas: str | None = None,
    folder: Path | None = None,
    threads: tuple[Callable[[int], None], int] | None = None,
    finish: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Run a product, up to three times and for some tenths of a second, and say what ran.

    run        runs the product once and waits for it
    asked      what the product is: dtype, routine, batch, the adapter's library
    operands   where each operand lies; without them copies cannot be seen
    device     cpu, cuda, mps, gpu
    blas       the family of BLAS library that the backend promises, if it does
    folder     where XLA and cuBLAS write their logs (see `logs_to`)
    threads    sets the library's number of threads, and the number asked for: where threads do
               little but wait for one another, the kernel is sampled with one
    finish     called with the record, from another thread, if the product takes so long that its
               end is not waited for; it should end the process. Without it, it is waited for.
    """
    started = time.perf_counter()

    def record(seen: Watched) -> Any:
        evidence = conclude(seen, asked, operands or {}, device, blas)
        evidence["cost_s"] = round(time.perf_counter() - started, 4)
        return _plain(evidence)

    early = (lambda seen: finish(record(seen))) if finish else None
    return record(Watcher(run, asked.library, device, folder, threads, early).watch())


def conclude(
    seen: Watched,
    asked: Asked,
    operands: Mapping[str, Memory],
    device: str = "cpu",
    blas: str | None = None,
) -> dict[str, Any]:
    """The record of what was seen."""
    expected = documented.expected(
        asked.library, device, platform.system(), asked.dtype, asked.routine, asked.batch, blas
    )
    reason = None
    if seen.running_s is not None:
        reason = (
            f"the product still ran after {seen.running_s:.1f} s, so this is what was seen by then"
        )
    return {
        "status": "ok",
        "reason": reason,
        "cost_s": None,
        "routines": verdict.routines(seen, expected),
        "kernels": verdict.kernels(seen, expected),
        "hidden": hidden_work.find(seen, asked, operands),
        "no_blas": proof.no_blas(seen),
        "inconsistent": proof.inconsistent(seen),
        "slots_watched": seen.slots_watched,
        "problems": seen.problems,
    }


def _plain(value: Any) -> Any:
    """What JSON can hold: numbers that are not finite become words."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
