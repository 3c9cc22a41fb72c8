"""The command line of `explain`."""

from __future__ import annotations

import argparse
import json
from typing import Any

from gemmgrid.records.cell import DTYPES


def read(arguments: list[str]) -> argparse.Namespace:
    """The options; ends the process with exit code 2 where they are wrong."""
    parser = argparse.ArgumentParser(
        prog="explain", description="What runs under one expression, and how we know."
    )
    parser.add_argument("--expr", required=True, help="such as 'A @ B.T'")
    parser.add_argument("--backend", required=True, help="its name, for the heading")
    parser.add_argument("--adapter", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--blas", help="the BLAS family that the backend promises")
    parser.add_argument("--options", type=_options, default={}, help="the adapter's, as JSON")
    parser.add_argument("--dtype", default="float32", choices=DTYPES)
    parser.add_argument("--shape", type=_shape, default=(512, 512, 512), help="512 or 512x256x128")
    parser.add_argument("--threads", type=_positive, default=1)
    parser.add_argument("--json", action="store_true", help="the record instead of words")
    return parser.parse_args(arguments)


def _options(text: str) -> dict[str, Any]:
    options = json.loads(text or "{}")
    if not isinstance(options, dict):
        raise argparse.ArgumentTypeError("a JSON object, such as {}")
    return options


def _shape(text: str) -> tuple[int, int, int]:
    sizes = [_positive(part) for part in text.lower().replace("×", "x").split("x")]
    if len(sizes) == 1:
        sizes *= 3
    if len(sizes) != 3:
        raise argparse.ArgumentTypeError(f"{text!r} is neither n nor m×n×k")
    m, n, k = sizes
    return m, n, k


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)
