"""Hashes of dictionaries: two contexts are the same when their hashes are."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def digest(document: Any, length: int = 12) -> str:
    """The first `length` hex digits of the SHA-256 of the document's canonical JSON."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """What differs between two contexts: dotted key → (old value, new value), None for absent."""
    before, after = dict(_leaves(old)), dict(_leaves(new))
    return {
        key: (before.get(key), after.get(key))
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key)
    }


def _leaves(document: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    leaves: list[tuple[str, Any]] = []
    for key, value in document.items():
        if isinstance(value, Mapping):
            leaves += _leaves(value, f"{prefix}{key}.")
        else:
            leaves.append((f"{prefix}{key}", value))
    return leaves
