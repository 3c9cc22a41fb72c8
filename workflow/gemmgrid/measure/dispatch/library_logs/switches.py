"""Logs that must be switched on before a library is imported, and what they do not change.

Only logging is switched on: the variables below choose no other code.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from pathlib import Path

from gemmgrid.measure.dispatch.library_logs import gpu, hlo


def switch_on(
    adapter: str, device: str, folder: Path, environ: MutableMapping[str, str] = os.environ
) -> None:
    """Ask XLA, cuBLAS and PyTorch's MPS side to write down what they do, in `folder`.

    MKL and oneDNN are switched on only when needed, by `logs`.
    """
    if adapter == "jax":
        environ["XLA_FLAGS"] = hlo.dump_flags(str(folder), environ.get("XLA_FLAGS"))
    if adapter in ("torch", "jax", "mlx"):
        environ.update(gpu.log_variables(device, str(folder)))
