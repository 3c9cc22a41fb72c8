"""What libraries say about themselves, and the logs to switch on before they are imported.

Only logging is switched on: the variables below choose no other code.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from pathlib import Path

from gemmgrid.measure.dispatch.library_logs import gpu_libraries, xla_program


def switch_on(
    adapter: str, device: str, folder: Path, environ: MutableMapping[str, str] = os.environ
) -> None:
    """Ask XLA, cuBLAS and PyTorch's MPS side to write down what they do, in `folder`.

    MKL and oneDNN are switched on only when needed, by `cpu_libraries`.
    """
    if adapter == "jax":
        environ["XLA_FLAGS"] = xla_program.dump_flags(str(folder), environ.get("XLA_FLAGS"))
    if adapter in ("torch", "jax", "mlx"):
        environ.update(gpu_libraries.log_variables(device, str(folder)))
