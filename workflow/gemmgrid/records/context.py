"""Contexts: what can change on a machine and move its numbers; hashes and differences of them.

A run's context has three parts, each with a hash of its own, so that runs agree about what they
share: `host` (kernel, microcode, governor …), `device` (the GPU's driver and settings; null on a
CPU) and `backend` (packages, BLAS library, variables).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

PARTS = ("host", "device", "backend")
UNKNOWN = "unknown"
"""The key under which a part keeps reasons for what it could not tell; never compared."""

_LABELS = {
    "host.id": "hardware (host id)",
    "device.id": "hardware (GPU id)",
    "device.driver": "GPU driver",
    "device.cuda": "CUDA of the driver",
    "device.vbios": "GPU firmware",
    "device.power_cap_w": "GPU power cap (W)",
    "backend.deploy": "environments made with",
    "backend.lock": "environment's lock",
    "backend.protocol": "way of measuring (protocol)",
    "backend.library.file": "BLAS file",
    "backend.library.fingerprint": "BLAS file's content",
    "backend.library.name": "BLAS",
    "backend.library.version": "BLAS version",
    "backend.library.core": "BLAS core",
}
_PREFIXES = {
    "backend.packages.": "package ",
    "backend.variables.": "variable ",
    "backend.options.": "option ",
    "backend.precision.": "precision knob ",
    "backend.library.": "BLAS ",
    "host.mitigations.": "mitigation ",
    "device.": "GPU ",
    "backend.": "",
    "host.": "",
}


def digest(document: Any, length: int = 12) -> str:
    """The first `length` hex digits of the SHA-256 of the document's canonical JSON."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def known(part: Mapping[str, Any]) -> dict[str, Any]:
    """A part without its reasons: another wording is no other context."""
    return {key: value for key, value in part.items() if key != UNKNOWN}


def of_run(run: Mapping[str, Any]) -> dict[str, Any]:
    """A run's context with the identities of its host and GPU among what is compared."""
    context = _mapping(run, "context")
    whole: dict[str, Any] = {part: dict(_mapping(context, part)) for part in PARTS}
    for part, key in (("host", "host"), ("device", "gpu")):
        identity = _mapping(run, key).get("id")
        if identity and (whole[part] or part == "host"):
            whole[part]["id"] = identity
    return whole


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """What differs between two documents: dotted key → (old value, new value), None for absent."""
    before, after = dict(_leaves(old)), dict(_leaves(new))
    return {
        key: (before.get(key), after.get(key))
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key)
    }


def changes(
    old: Mapping[str, Any] | None, new: Mapping[str, Any] | None
) -> dict[str, tuple[Any, Any]]:
    """What changed between two contexts: `host.kernel` → (old value, new value).

    A part, or a key of a part, that one of the two does not have is not compared: an older record
    lacks what a newer gemmgrid writes down, and some things are known only while measuring. Inside
    a key's mapping (packages, variables, mitigations) an absent entry is a value: None.
    """
    found: dict[str, tuple[Any, Any]] = {}
    for part in PARTS:
        before, after = (_mapping(side, part) for side in (old, new))
        shared = sorted((before.keys() & after.keys()) - {UNKNOWN})
        left, right = ({key: side[key] for key in shared} for side in (before, after))
        found |= {f"{part}.{key}": pair for key, pair in difference(left, right).items()}
    return found


def label(key: str) -> str:
    """A key of `changes` in words: `backend.packages.numpy` → `package numpy`."""
    if key in _LABELS:
        return _LABELS[key]
    for prefix, word in _PREFIXES.items():
        if key.startswith(prefix):
            return word + key.removeprefix(prefix).replace("_", " " if not word else "_")
    return key


def describe(key: str, pair: tuple[Any, Any]) -> str:
    """One change in words: `package numpy: 2.4.5 → 2.4.6`."""
    return f"{label(key)}: {_shown(pair[0])} → {_shown(pair[1])}"


def _shown(value: Any) -> str:
    return "(none)" if value is None else value if isinstance(value, str) else json.dumps(value)


def _mapping(document: Mapping[str, Any] | None, key: str) -> Mapping[str, Any]:
    value = (document or {}).get(key)
    return value if isinstance(value, Mapping) else {}


def _leaves(document: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    leaves: list[tuple[str, Any]] = []
    for key, value in document.items():
        if isinstance(value, Mapping):
            leaves += _leaves(value, f"{prefix}{key}.")
        else:
            leaves.append((f"{prefix}{key}", value))
    return leaves
