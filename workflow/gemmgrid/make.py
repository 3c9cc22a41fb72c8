"""`python -m gemmgrid make TARGET`: what a target of the Makefile starts.

The Makefile passes what its user gave through the environment, and no shell reads it: spaces,
quotes and dollar signs arrive as they were typed. What stands in ARGUMENTS, TARGETS and CONFIG is
split into words as a shell would, and nothing in it is expanded or run.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from gemmgrid.records import commands

SNAKEMAKE = ("bench", "report", "stale", "slurm", "slurm-plan")
TESTS = {
    "test": ["-m", "not long"],
    "test-all": [],
    "test-blas": ["-s", "tests/conda/blas/variants.py"],
}
PACKAGE = "workflow"
"""What the Makefile puts in front of the user's PYTHONPATH, so that this module is found."""


class WrongError(ValueError):
    """What make was given cannot be started; the text is the finished message."""


def main(arguments: Sequence[str]) -> int:
    """Become the program that the target stands for; returns only where that cannot be started."""
    try:
        line = command(arguments[0], os.environ)
    except WrongError as error:
        print(f"make: {error}", file=sys.stderr)
        return 1
    theirs = os.environ.get("PYTHONPATH", "").removeprefix(PACKAGE).removeprefix(os.pathsep)
    os.environ["PYTHONPATH"] = theirs
    if not theirs:
        del os.environ["PYTHONPATH"]
    os.execv(sys.executable, [sys.executable, "-m", *line])


def command(target: str, given: Mapping[str, str]) -> list[str]:
    """A module and its arguments for a target, from the variables STUDY, DEPLOY, ARGUMENTS …"""
    if target in TESTS:
        return ["pytest", *TESTS[target], *_words("ARGUMENTS", given)]
    if target not in SNAKEMAKE:
        raise WrongError(f"{target!r} is none of {', '.join([*SNAKEMAKE, *TESTS])}")
    slurm = target.startswith("slurm")
    arguments = _words("ARGUMENTS", given)
    end = arguments.index("--") if "--" in arguments else len(arguments)
    arguments, behind = arguments[:end], arguments[end + 1 :]
    # Snakemake takes the last --config only, and the last --configfile: all words for it go as one.
    arguments, config = _taken(arguments, ("--config", "-C"))
    arguments, files = _taken(arguments, ("--configfile", "--configfiles"))
    study = given.get("STUDY")
    chosen = [word.removeprefix("deploy=") for word in config if word.startswith("deploy=")]
    deploy = (chosen or [given.get("DEPLOY", "")])[-1] or (
        "conda" if shutil.which("conda") else "venv"
    )
    # The report needs no environment of a backend's, and says all the same how they were made.
    use_conda = deploy == "conda" and target != "report"
    settings = [
        *([] if deploy == "venv" or use_conda else [f"deploy={deploy}"]),
        *([f"machines={_list(given['MACHINES'])}"] if slurm and given.get("MACHINES") else []),
        *([f"cells_per_allocation={given['CELLS']}"] if slurm and given.get("CELLS") else []),
        *_words("CONFIG", given),
    ]
    keys = {word.partition("=")[0] for word in config}
    targets = {"bench": _words("TARGETS", given), "report": ["report"], "stale": ["stale"]}
    return commands.words(
        [*targets.get(target, []), *behind],
        slurm=slurm,
        cores=given.get("CORES") or "1",
        deploy="conda" if use_conda else None,
        others=[*arguments, *(["--dry-run"] if target == "slurm-plan" else [])],
        configfiles=[*([_study_file(study)] if study else []), *files],
        config=[*(word for word in settings if word.partition("=")[0] not in keys), *config],
    )


def _study_file(study: str) -> str:
    file = Path(f"config/studies/{study}.yaml")
    if not file.is_file():
        known = sorted(path.stem for path in file.parent.glob("*.yaml"))
        near = get_close_matches(study, known, n=1)
        guess = f" Did you mean {near[0]!r}?" if near else ""
        raise WrongError(f"STUDY: {study!r} is none of {', '.join(known) or 'no study'}.{guess}")
    return str(file)


def _words(name: str, given: Mapping[str, str]) -> list[str]:
    try:
        return shlex.split(given.get(name, ""))
    except ValueError as error:
        raise WrongError(f"{name}: {error}: {given[name]}") from None


def _list(names: str) -> str:
    """`a, b` as Snakemake's --config takes it: one word."""
    return ",".join(names.replace(",", " ").split())


def _taken(arguments: Sequence[str], options: Sequence[str]) -> tuple[list[str], list[str]]:
    """The arguments without these options, and the words that followed the options."""
    left: list[str] = []
    taken: list[str] = []
    goes_on = False
    for word in arguments:
        name, equals, value = word.partition("=")
        if name in options:
            goes_on = not equals
            taken += [value] if equals else []
        elif goes_on and not word.startswith("-"):
            taken.append(word)
        else:
            goes_on = False
            left.append(word)
    return left, taken
