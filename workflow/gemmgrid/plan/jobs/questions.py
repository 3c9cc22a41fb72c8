"""Keys of --config that ask something of one command and are no part of the study."""

from __future__ import annotations

from collections.abc import Iterable

from gemmgrid.plan.config.errors import ConfigError
from gemmgrid.plan.jobs.targets import is_rule

COMMANDS = {
    **dict.fromkeys(("only", "older_than"), "refresh"),
    **dict.fromkeys(("first", "second"), "compare"),
    **dict.fromkeys(("lower", "upper", "replace"), "references"),
    **dict.fromkeys(("expr", "backend", "dtype", "shape", "threads"), "explain"),
}
"""The command that each key means something to."""
QUESTIONS = (*COMMANDS, "cells_per_allocation")  # the last for whatever is sent

MEANT = {
    "backend": " A study is narrowed by backends=NAME, or by select='backend=NAME'.",
    "dtype": " A study is narrowed by select='dtype=float32'; a grid's block says dtypes.",
    "shape": " A study is narrowed by select='n>=512'; a grid's block says shapes.",
    "threads": " A study is narrowed by select='threads=2'; a grid's block says threads.",
}


def check(asked: Iterable[str], targets: Iterable[str]) -> None:
    """ConfigError where a key was given without the command that it belongs to."""
    names = list(targets)
    problems = [
        f"the command line (--config), {key}: it belongs to the command `{COMMANDS[key]}`, and "
        f"would mean nothing here.{MEANT.get(key, '')}"
        for key in asked
        if key in COMMANDS and not any(is_rule(name, COMMANDS[key]) for name in names)
    ]
    if problems:
        raise ConfigError(problems)
