"""What a library's source says it calls, where nothing can be seen: GPUs from Apple, macOS.

An expectation with its source (repository, commit, path), never shown as something that ran.
The table is documented.json, so that a new line needs no code.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}


@dataclass(frozen=True)
class Expected:
    """Routine and kernel that a source names; `source` is "repository@commit path"."""

    routine: str
    kernel: str | None
    source: str


def expected(
    adapter: str,
    device: str,
    system: str,
    dtype: str,
    routine: str = "gemm",
    batch: int = 1,
    blas: str | None = None,
) -> Expected | None:
    """What the sources say about this product, or None where the table has no line for it.

    system   platform.system(): Linux, Darwin
    """
    asked = {
        "adapter": adapter,
        "device": device,
        "system": system,
        "dtype": dtype,
        "routine": routine or "gemm",
        "batch": batch > 1,
        "blas": blas,
    }
    for entry in _entries():
        if all(_matches(asked[key], wanted) for key, wanted in entry["when"].items()):
            letter = LETTERS.get(dtype, "")
            names = {"l": letter, "L": letter.upper(), "routine": asked["routine"]}
            source = f"{entry['repository']}@{entry['commit']} {entry['path']}"
            return Expected(entry["routine"].format(**names), entry.get("kernel"), source)
    return None


def _matches(value: Any, wanted: Any) -> bool:
    return value in wanted if isinstance(wanted, list) else value == wanted


@cache
def _entries() -> list[dict[str, Any]]:
    text = Path(__file__).with_name("documented.json").read_text(encoding="utf-8")
    entries: list[dict[str, Any]] = json.loads(text)["entries"]
    return entries
