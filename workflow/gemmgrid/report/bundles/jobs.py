"""Takes out of records what tells in which cluster and job they were made: SLURM's names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

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
_SHORTEST_NODE = 3
"""A shorter node's name is part of too many words to be replaced wherever it stands."""


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
            alone = [name for name in names if len(name) >= _SHORTEST_NODE]
            if key == "node" and alone:
                anywhere = rf"(?i)(?<![A-Za-z0-9_]){_any(alone)}(?![A-Za-z0-9_])"
                yield re.compile(anywhere), WORDS[key]


def _listed(value: Any) -> list[str]:
    """The names in a fact: a run whose rounds were jobs of their own has `ice1, ice2`."""
    return [name for name in re.split(r",\s*", value) if name] if isinstance(value, str) else []


def _any(names: Iterable[str]) -> str:
    return f"(?:{'|'.join(map(re.escape, names))})"
