"""What the liars share: NumPy's honest adapter, and a way to spoil what it prepares."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gemmgrid.measure.adapters.base import Call
from gemmgrid.measure.adapters.numpy import NumpyAdapter

Honest = NumpyAdapter


def instead(call: Call, statement: str, **names: Any) -> Call:
    """The call with another statement, and more names for it."""
    return replace(call, statement=statement, names={**call.names, **names})
