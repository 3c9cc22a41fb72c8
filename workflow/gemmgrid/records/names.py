"""Names that become folders and parts of commands: of machines and of backends."""

from __future__ import annotations

import re

NAME_PATTERN = r"[a-z0-9][a-z0-9._-]{0,63}"
_NAME = re.compile(NAME_PATTERN)
RESERVED = frozenset({"tables"})
"""Folders under results/ that are no machine's."""


def name_problem(name: object) -> str | None:
    """Why this cannot be a machine's or backend's name, or None."""
    if not isinstance(name, str):
        return f"a name is text, not {type(name).__name__}"
    if not _NAME.fullmatch(name) or ".." in name:
        return (
            f"{name!r} is not a name: lower-case letters, digits, '.', '_' and '-', starting with "
            "a letter or digit, at most 64 of them, without '..'"
        )
    if name in RESERVED:
        return f"{name!r} is not a name: results/{name} is kept for gemmgrid itself"
    return None
