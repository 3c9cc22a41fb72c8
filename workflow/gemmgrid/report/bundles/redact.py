"""Takes out of a record what tells who and where: paths, names of users, hosts and SLURM's jobs."""

from __future__ import annotations

import getpass
import os
import re
import socket
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

_HOMES = re.compile(r"(?:/home|/Users|/users|/u|/export/home)/[^/\s:;,'\"]+|/root(?=[/\s:;,'\"]|$)")
_STRUCTURE = frozenset(
    {"schema", "id", "tool", "machine", "backend", "adapter", "device", "cell", "status", "host"}
)
"""Keys of a run that hold names and facts of hardware: a user called `amd` is not in them."""
_SHORTEST_NAME = 3
"""A name of one or two letters is part of too many words to be replaced wherever it stands."""

WORDS = {
    "node": "NODE",
    "job_id": "JOB",
    "partition": "PARTITION",
    "account": "ACCOUNT",
    "cluster": "CLUSTER",
    "qos": "QOS",
}
"""Facts of a run's job that identify, and the words that take their place."""

_BEFORE = {key: rf"{key}s?" for key in WORDS} | {"job_id": r"(?:job|slurm)(?:[ _-]?id)?s?"}
"""A partition may be called `cpu` and a job 512: in a text such a value is replaced only where the
word for it stands before."""
_BETWEEN = r"""[\s=:#'"(_-]{1,3}"""
_ANY_JOB = re.compile(r"(?i)(slurm[ _-]?job[ _-]?(?:id)?[\s=:#_-]{0,3}|slurm-)\d+")


class Redactor:
    """Replaces environment and project folders, homes, and the names of user, host and jobs."""

    def __init__(self, project: Path, user: str | None = None, host: str | None = None) -> None:
        self.project = str(project.resolve())
        self.jobs = Jobs()
        self.names: list[tuple[re.Pattern[str], str]] = []
        name = _user() if user is None else user
        for text, word in ((name, "USER"), *_hosts(host)):
            if len(text) >= _SHORTEST_NAME and text not in ("root", "localhost"):
                bounded = rf"(?<![A-Za-z0-9_]){re.escape(text)}(?![A-Za-z0-9_])"
                self.names.append((re.compile(bounded, re.IGNORECASE), word))

    def learn(self, runs: Iterable[Mapping[str, Any]]) -> None:
        """Take note of the nodes and jobs of these runs, which texts of all may name."""
        self.jobs.learn(runs)

    def run(self, run: Mapping[str, Any]) -> dict[str, Any]:
        """The run without its environment's and anyone's folders, and without its job's names."""
        environment = run.get("environment")
        prefix = environment.get("prefix") if isinstance(environment, Mapping) else None
        folders = [(prefix, "ENVIRONMENT")] if isinstance(prefix, str) and len(prefix) > 1 else []
        found = dict(run)
        for key, value in run.items():
            if key not in _STRUCTURE:
                # Folders first: a node's name in a path must not keep the path from being known.
                facts = self.jobs.facts(value) if key == "slurm" else value
                plain = _texts(facts, lambda text: self.text(text, folders))
                # A node may be called like a key.
                found[key] = _texts(plain, self.jobs.text, keys=False)
        return found

    def machine(self, document: Any) -> Any:
        """machine.json, which holds nothing of who and where; only paths are looked for."""
        return _texts(document, lambda text: _HOMES.sub("~", text))

    def text(self, text: str, folders: list[tuple[str, str]]) -> str:
        """One text without the folders given, the project's, anyone's home, and the names."""
        for folder, word in [*folders, (self.project, "PROJECT")]:
            if folder in text:
                text = re.sub(rf"{re.escape(folder)}(?=[/\s:;,'\"]|$)", word, text)
        text = _HOMES.sub("~", text)
        for pattern, word in self.names:
            text = pattern.sub(word, text)
        return text


class Jobs:
    """The jobs whose runs are packed: what they were called, wherever a text says so."""

    def __init__(self) -> None:
        self._known: dict[str, set[str]] = {key: set() for key in WORDS}
        self._patterns: list[tuple[re.Pattern[str], str]] = []

    def learn(self, runs: Iterable[Mapping[str, Any]]) -> None:
        """Take note of these runs' jobs: a text in one run may name the node of another."""
        for run in runs:
            facts = run.get("slurm")
            if not isinstance(facts, Mapping):
                continue
            for key, known in self._known.items():
                value = facts.get(key)
                for name in _listed(value):
                    known.add(name)
                    if key == "node":
                        known.add(name.partition(".")[0] or name)
        self._patterns = list(self._compiled())

    def facts(self, slurm: Any) -> Any:
        """A run's `slurm` with the identifying values replaced; what is unknown stays so."""
        if not isinstance(slurm, Mapping):
            return slurm
        return {
            key: WORDS[key] if key in WORDS and value is not None else value
            for key, value in slurm.items()
        }

    def text(self, text: str) -> str:
        """One text without the names that were learned."""
        for pattern, word in self._patterns:
            text = pattern.sub(word, text)
        return _ANY_JOB.sub(r"\1JOB", text)

    def _compiled(self) -> Iterable[tuple[re.Pattern[str], str]]:
        for key, known in self._known.items():
            if not known:
                continue
            # The longest first: `ice1` must not leave `.cluster.org` behind.
            names = sorted(known, key=lambda name: (-len(name), name))
            told = rf"(?i)(?<![A-Za-z])({_BEFORE[key]}{_BETWEEN}){_any(names)}(?![A-Za-z0-9_])"
            yield re.compile(told), rf"\g<1>{WORDS[key]}"
            alone = [name for name in names if len(name) >= _SHORTEST_NAME]
            if key == "node" and alone:
                anywhere = rf"(?i)(?<![A-Za-z0-9_]){_any(alone)}(?![A-Za-z0-9_])"
                yield re.compile(anywhere), WORDS[key]


def identity() -> dict[str, str]:
    """Who and where, for a manifest whose maker asked for it."""
    return {"host": socket.gethostname(), "user": _user()}


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return os.environ.get("USER", "")


def _hosts(host: str | None) -> list[tuple[str, str]]:
    name = socket.gethostname() if host is None else host
    return [(name, "HOST"), (name.partition(".")[0], "HOST")] if name else []


def _texts(value: Any, change: Callable[[str], str], keys: bool = True) -> Any:
    """The document with every text changed; keys: those of objects, too."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {
            change(str(key)) if keys else key: _texts(part, change, keys)
            for key, part in value.items()
        }
    if isinstance(value, list):
        return [_texts(part, change, keys) for part in value]
    return value


def _listed(value: Any) -> list[str]:
    """The names in a fact: a run whose rounds were jobs of their own has `ice1, ice2`."""
    return [name for name in re.split(r",\s*", value) if name] if isinstance(value, str) else []


def _any(names: Iterable[str]) -> str:
    return f"(?:{'|'.join(map(re.escape, names))})"
