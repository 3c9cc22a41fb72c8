"""A test double of conda, for machines that reach no conda channel. It is not conda.

It answers the commands that Snakemake 9 calls, with py-rattler's real solver and installer, from
`file://` channels only. It has no pip sections, no `conda run` and no named environments, and what
it installs was made from PyPI's wheels, not by conda-forge. So a test with it shows how Snakemake,
the env files and gemmgrid act together; it does not show that conda-forge has these packages.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

BIN = Path(__file__).parent / "bin"


def variables(channel: Path, cache: Path, base: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables with which `conda` is this double.

    channel   folder that stands for conda-forge
    cache     folder of downloaded and unpacked packages (conda's pkgs)
    """
    return {
        **{name: value for name, value in base.items() if not name.startswith("CONDA_")},
        "PATH": f"{BIN}{os.pathsep}{base['PATH']}",
        "CONDA_DOUBLE_CHANNEL": channel.resolve().as_uri(),
        "CONDA_DOUBLE_CACHE": str(cache),
        "CONDA_DOUBLE_PYTHON": sys.executable,
    }
