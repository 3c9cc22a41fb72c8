"""Texts that gemmgrid itself writes, told from a stranger's words: what is ours is public.

What stands in this package's own source tells nothing of who ran it and where. So of a text only
the phrases are kept that stand there, and between them numbers and a few words that every record
holds; the rest (a login, a path, an address, what another program said) becomes "…".
"""

from __future__ import annotations

import ast
import builtins
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path

from gemmgrid.records.run import FLAGS, STATUSES
from gemmgrid.report.bundles.harmless import WORDS

LEFT_OUT = "(left out of the bundle)"
"""Stands for a text of which nothing is known."""
GAP = "…"
_PACKAGE = Path(__file__).resolve().parents[2]
_SOURCES = (_PACKAGE, _PACKAGE.with_name("snakemake_executor_plugin_gemmgrid_slurm"))
_LONGEST = 300
"""Longer literals are explanations of the source, not parts of messages."""
_SHORTEST_WORD = 4
_NUMBER = re.compile(
    r"[-+±~<>≥≤]?\d{1,4}(?:[.,:x×]\d+){0,2}(?:e[-+]?\d+)?[%×]?|\d+\.\d+(?:e[-+]?\d+)?%?"
)
"""A long whole number may be a job or a user: it passes with a unit only."""
_WORDS = WORDS["words"] | {*STATUSES, *FLAGS, *(one.name.casefold() for one in signal.Signals)}
_WORDS |= {name.casefold() for name in vars(builtins) if name.endswith(("Error", "Exception"))}
_RAISED = re.compile(r"[A-Z][A-Za-z]+(?:Error|Exception)(?=:)")
"""What Python says first of an exception."""
_WORD = re.compile(r"[^\s.,;:()\[\]'\"`]+")
_EDGES = " \t\n.,;:()[]'\"`"


@dataclass
class _Source:
    """literals: every text and key of the package's source; phrases: by their first word, the
    longest first."""

    literals: set[str] = field(default_factory=set)
    phrases: dict[str, list[str]] = field(default_factory=dict)


def is_ours(text: str) -> bool:
    """Whether the whole text, or this key, stands in the package's source."""
    return text in _source().literals


@lru_cache(maxsize=20_000)
def known_part(text: str) -> str:
    """The text with "…" for all that is not known; LEFT_OUT where no phrase of it is."""
    if is_ours(text) or text.casefold() in ("", *_WORDS):
        return text
    told: list[str] = []
    raised = _RAISED.match(text)
    known, gap, at = raised is not None and raised[0].casefold() in _WORDS, 0, 0
    for word in _WORD.finditer(text):
        if word.start() < at:
            continue
        phrase = _phrase_at(text, word.start())
        if phrase:
            told += [_gap(text[gap : word.start()], told), phrase]
            at = gap = word.start() + len(phrase)
            known = known or " " in phrase
    if not known:
        return LEFT_OUT
    told.append(_gap(text[gap:], told))
    return re.sub(rf"{GAP}(?:[\s,;:'\"]*{GAP})+", GAP, "".join(told))


def _phrase_at(text: str, start: int) -> str | None:
    for phrase in _source().phrases.get(_first_word(text[start : start + _LONGEST]), ()):
        end = start + len(phrase)
        if text.startswith(phrase, start) and not (end < len(text) and text[end].isalnum()):
            return phrase
    return None


def _gap(text: str, before: list[str]) -> str:
    """What stands between two phrases, with "…" for each word that is not harmless."""
    earlier = "".join(before[-1:]).split()
    hidden = bool(earlier) and earlier[-1].strip(_EDGES).casefold() in WORDS["identifying"]
    parts = re.split(r"(\s+)", text)
    words = [part.strip(_EDGES) for part in parts]
    told = []
    for place, (part, word) in enumerate(zip(parts, words, strict=True)):
        if not word:
            told.append(part)
            continue
        following = next((other for other in words[place + 1 :] if other), "")
        # `ended by SIGKILL` tells of nobody.
        if (word.startswith("SIG") or not hidden) and _is_harmless(word, following):
            told.append(part)
            hidden = False
            continue
        # `jobs 12, 13`: a list of them is as identifying as the first.
        hidden = word.casefold() in WORDS["identifying"] or (hidden and part.endswith(","))
        start = part.index(word)
        told.append(part[:start] + GAP + part[start + len(word) :])
    return "".join(told)


def _is_harmless(word: str, following: str) -> bool:
    if word == GAP or word.casefold() in _WORDS or word in WORDS["units"]:
        return True
    return _NUMBER.fullmatch(word) is not None or (word.isdigit() and following in WORDS["units"])


def _first_word(text: str) -> str:
    found = _WORD.search(text)
    return found[0] if found else ""


@cache
def _source() -> _Source:
    source = _Source()
    phrases: set[str] = set()
    for path in sorted(path for folder in _SOURCES for path in folder.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.keyword) and node.arg:
                source.literals.add(node.arg)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                source.literals.add(node.target.id)  # a key of a record's type
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                source.literals.add(node.value)
                phrases |= set(_phrases(node.value, 2))
            elif isinstance(node, ast.JoinedStr):
                for part in node.values:
                    if isinstance(part, ast.Constant):
                        phrases |= set(_phrases(str(part.value), 1))
    for phrase in sorted(phrases, key=lambda one: (-len(one), one)):
        source.phrases.setdefault(_first_word(phrase), []).append(phrase)
    return source


def _phrases(literal: str, least_words: int) -> Iterator[str]:
    phrase = literal.strip(_EDGES)
    words = phrase.split()
    if len(phrase) > _LONGEST or len(words) < least_words:
        return
    if len(words) > 1 or (len(phrase) >= _SHORTEST_WORD and phrase.isalpha()):
        yield phrase
