"""Takes out of a record what tells who and where: only what is known to be harmless stays.

Numbers stay. A text stays where its key holds facts of hardware and software and it looks like one,
or where gemmgrid's own source has it; a variable stays where its name and value are known; a path
keeps its file's name, and its folders only inside the environment or the system's. Of other texts
the known phrases stay (`known_texts`). A key that gemmgrid does not write is left out.
"""

from __future__ import annotations

import getpass
import os
import re
import socket
from collections.abc import Mapping
from typing import Any

from gemmgrid.records.run import FLAGS
from gemmgrid.report.bundles.harmless import (
    GRES,
    HASH,
    HIDDEN,
    INSIDE,
    LIBRARY,
    LONGEST_FACT,
    NAME,
    NODE_WORD,
    NOT_A_FACT,
    OPEN_KEYS,
    SLURM,
    SOURCE,
    SYSTEM,
    VERSION,
    WORDS,
)
from gemmgrid.report.bundles.known_texts import GAP, is_ours, known_part

_SHORTEST_NAME = 3
"""A name of one or two letters is part of too many words to be replaced."""


class Redactor:
    """Keeps of records what is known to be harmless; `user` and `host` are this process's own."""

    def __init__(self, user: str | None = None, host: str | None = None) -> None:
        self._names: list[tuple[re.Pattern[str], str]] = []
        name = _user() if user is None else user
        for text, word in ((name, "USER"), *_hosts(host)):
            if len(text) >= _SHORTEST_NAME and text not in ("root", "localhost"):
                bounded = rf"(?<![A-Za-z0-9_]){re.escape(text)}(?![A-Za-z0-9_])"
                self._names.append((re.compile(bounded, re.IGNORECASE), word))

    def run(self, run: Mapping[str, Any]) -> dict[str, Any]:
        """The run, with what is not known to be harmless replaced."""
        environment = run.get("environment")
        prefix = environment.get("prefix") if isinstance(environment, Mapping) else None
        own = prefix.rstrip("/") if isinstance(prefix, str) else ""
        return {key: self._value(key, value, own) for key, value in run.items()}

    def machine(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """machine.json likewise."""
        return {key: self._value(key, value, "") for key, value in document.items() if _key(key)}

    def _value(self, key: str, value: Any, prefix: str, slurm: bool = False) -> Any:
        if isinstance(value, str):
            return self._text(key, value, prefix, slurm)
        if isinstance(value, Mapping):
            if key in ("variables", "dropped_variables"):
                return _variables(value)
            if key == "problems":  # of the evidence: by the file that could not be looked at
                return {
                    self._text("file", str(name), prefix): self._value("", one, prefix)
                    for name, one in value.items()
                }
            inner = {name: one for name, one in value.items() if _key(name, key in OPEN_KEYS)}
            return {
                name: self._value(
                    # Facts by a name that the system gave, and reasons by that of what is missing.
                    key if key in OPEN_KEYS else "" if key == "unknown" else name,
                    one,
                    prefix,
                    key == "slurm",
                )
                for name, one in inner.items()
            }
        if isinstance(value, list):
            if key == "flags":
                return [one for one in value if one in FLAGS]
            if {int, float}.issuperset(map(type, value)):  # samples: thousands of numbers
                return value
            return [self._value(key, one, prefix, slurm) for one in value]
        return value

    def _text(self, key: str, text: str, prefix: str, slurm: bool = False) -> str:
        if slurm and key in SLURM:
            return SLURM[key]
        if slurm and key == "features":
            return text if NODE_WORD.fullmatch(text) else "FEATURE"
        if slurm and key == "gres":
            return text if GRES.fullmatch(text) else "GRES"
        if key == "prefix":
            return "ENVIRONMENT"
        if key in ("file", "caller", "folder", "others") or ("/" in text and key == "library"):
            return self._named(_path(text, prefix))
        if is_ours(text):
            return text
        if key == "source" and SOURCE.fullmatch(text):
            return text
        for kind, form in (("hashes", HASH), ("versions", VERSION)):
            if key in WORDS[kind]:
                return text if form.fullmatch(text) and not NOT_A_FACT.search(text) else GAP
        if key in WORDS["facts"] or (key == "library" and LIBRARY.fullmatch(text)):
            if len(text) > LONGEST_FACT or NOT_A_FACT.search(text):
                return GAP
            return self._named(text) if key == "kernel" else text
        return known_part(text)

    def _named(self, text: str) -> str:
        for pattern, word in self._names:
            text = pattern.sub(word, text)
        return text


def identity() -> dict[str, str]:
    """Who and where, for a manifest whose maker asked for it."""
    return {"host": socket.gethostname(), "user": _user()}


def _path(path: str, prefix: str) -> str:
    if prefix and path.startswith(f"{prefix}/"):
        path = f"ENVIRONMENT{path[len(prefix) :]}"
    if ".." not in path.split("/") and (SYSTEM.fullmatch(path) or INSIDE.fullmatch(path)):
        return path
    name = re.split(r"[/\\]", path)[-1]
    return f"{GAP}/{name}" if LIBRARY.fullmatch(name) else GAP


def _variables(found: Mapping[str, Any]) -> dict[str, str]:
    """Those of known names; their values where they are numbers and known words."""
    return {
        name: value if isinstance(value, str) and _is_plain(value) else HIDDEN
        for name, value in found.items()
        if name in WORDS["variables"]
    }


def _is_plain(value: str) -> bool:
    words = re.findall(r"[A-Za-z_][A-Za-z0-9_]*", re.sub(r"\b\d+[kKmMgGx]\b", "", value))
    return re.fullmatch(r"[\w\s,.;:{}()*=+-]*", value, re.ASCII) is not None and all(
        word.lower() in WORDS["values"] for word in words
    )


def _key(name: Any, is_open: bool = False) -> bool:
    if is_open:
        return NAME.fullmatch(name) is not None and NOT_A_FACT.search(name) is None
    return all(is_ours(part) for part in (name, *name.split("."))[name.count(".") > 0 :])


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return os.environ.get("USER", "")


def _hosts(host: str | None) -> list[tuple[str, str]]:
    name = socket.gethostname() if host is None else host
    return [(name, "HOST"), (name.partition(".")[0], "HOST")] if name else []
