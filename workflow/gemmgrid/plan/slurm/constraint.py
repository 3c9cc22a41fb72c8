"""SLURM's `--constraint`: which nodes an expression over features accepts.

As sbatch's manual describes it and as SLURM 22.05 was seen to decide: `&` and `,` mean and, `|`
means or, both from left to right without precedence; parentheses group names and do not nest;
`[a|b]` wants all nodes of a job from one side; `name*2` and `[a*1&b*1]` give a job several nodes.
There is no "not".
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

_TOKEN = re.compile(r"[&|,()\[\]*]|[^&|,()\[\]*\s]+|\s+")
_AND = ("&", ",")

Term = str | tuple[tuple[str, "Term"], ...]
"""A feature's name, or (operator, term) pairs; the first operator is `&`."""


class ConstraintError(ValueError):
    """The expression is none that SLURM takes; the text says why."""


@dataclass(frozen=True)
class Constraint:
    """A parsed expression: the features it names, and how many nodes it asks for."""

    text: str
    features: tuple[str, ...]
    nodes: int
    term: Term

    def accepts(self, features: Collection[str]) -> bool:
        """Whether a node with these features can be (one of) the nodes."""
        return _accepts(self.term, features)


def parse(text: str) -> Constraint:
    """Read an expression; ConstraintError where SLURM would say `Invalid feature specification`."""
    return _Reader(text).read()


def _accepts(term: Term, features: Collection[str]) -> bool:
    if isinstance(term, str):
        return term in features
    result = True
    for operator, part in term:
        one = _accepts(part, features)
        result = (result and one) if operator in _AND else (result or one)
    return result


class _Reader:
    """Reads one expression from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _TOKEN.findall(text)
        self.names: list[str] = []
        self.counts: list[int] = []
        self.bracketed = False

    def read(self) -> Constraint:
        term = self._sequence(end="", inside="")
        return Constraint(self.text, tuple(dict.fromkeys(self.names)), max([1, *self.counts]), term)

    def _sequence(self, end: str, inside: str) -> Term:
        """Terms and the operators between them up to `end`; `inside` is the bracket around them."""
        start = len(self.counts)
        pairs: list[tuple[str, Term]] = [("&", self._term(inside))]
        while (token := self._take()) != end:
            if token not in (*_AND, "|"):
                raise ConstraintError(f"{_shown(token)} stands where & or | is expected")
            pairs.append((token, self._term(inside)))
        if inside == "[":
            self._close_bracket(pairs, start)
        return tuple(pairs)

    def _close_bracket(self, pairs: list[tuple[str, Term]], start: int) -> None:
        """Hold what square brackets allow, and make `[a*1&b*2]` three nodes, each with its own."""
        operators = {"&" if operator in _AND else operator for operator, _ in pairs[1:]}
        if len(operators) > 1:
            raise ConstraintError(
                "& and | are mixed in square brackets; put one of them in parentheses"
            )
        if operators == {"|"} and len(self.counts) > start:
            raise ConstraintError("counts and | do not go together in square brackets")
        if operators == {"&"}:
            if len(self.counts) - start < len(pairs):
                raise ConstraintError(
                    "& in square brackets needs a count behind every feature, as in [a*1&b*1]; "
                    "for one node that has both write a&b"
                )
            self.counts.append(sum(self.counts[start:]))
            pairs[1:] = [("|", term) for _, term in pairs[1:]]

    def _term(self, inside: str) -> Term:
        token = self._take()
        term: Term
        if token == "[":
            if inside or self.bracketed:
                raise ConstraintError(
                    "SLURM takes one pair of square brackets, and none within parentheses"
                )
            self.bracketed = True
            return self._sequence("]", "[")
        if token == "(":
            if inside == "(":
                raise ConstraintError("SLURM has no parentheses within parentheses")
            term = self._sequence(")", "(")
        elif not token or token.isspace() or token in "&|,)]*":
            raise ConstraintError(f"{_shown(token)} stands where a feature's name is expected")
        elif token.startswith("!"):
            raise ConstraintError("SLURM has no 'not'; name the features that are wanted")
        else:
            self.names.append(token)
            term = token
        if self.tokens[:1] == ["*"]:
            self._count(inside)
        return term

    def _count(self, inside: str) -> None:
        self._take()
        count = self._take()
        if inside == "(":
            raise ConstraintError("a count stands behind parentheses, not in them")
        if not count.isdecimal() or int(count) < 1:
            raise ConstraintError(f"{_shown(count)} behind * is no number of nodes (1 or more)")
        self.counts.append(int(count))

    def _take(self) -> str:
        return self.tokens.pop(0) if self.tokens else ""


def _shown(token: str) -> str:
    if not token:
        return "the end"
    return "a space" if token.isspace() else repr(token)
