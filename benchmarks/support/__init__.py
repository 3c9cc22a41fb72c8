"""What the benchmark programs share. Importing it makes the project's own package importable.

The programs are started from anywhere as `.venv/bin/python benchmarks/NAME.py`; their folder is
then the first on Python's path, and this package the first thing that they import.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "workflow"
"""The folder that holds gemmgrid."""

if str(PACKAGE) not in sys.path:
    sys.path.insert(0, str(PACKAGE))
