"""`gemmgrid doctor`: what on this machine makes timings noisy, and the cure.

Looks for one second, changes nothing, needs no root, and always exits with 0: advice is no failure.
"""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
import time
from collections.abc import Mapping
from pathlib import Path

from gemmgrid.measure import machine
from gemmgrid.measure.doctor.advice import Advice, Seen, advise
from gemmgrid.measure.host import conditions

LOOK_S = 1.0
WIDTH = 88


def look(seconds: float = LOOK_S) -> Seen:
    """Read the machine twice, `seconds` apart."""
    facts = machine.facts()
    # Without an NVIDIA driver asking for "cuda" costs nothing and says why in `unknown`.
    device = "cuda" if facts["gpus"] and sys.platform.startswith("linux") else "cpu"
    before = conditions.read(device)
    time.sleep(seconds)
    after = conditions.read(device, before)
    flags = conditions.judge(before, after)
    return Seen(facts, before, after, flags, shell_variables(os.environ))


def shell_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """The user's variables, without what of PYTHONPATH is there for this package to be found."""
    own = Path(__file__).resolve().parents[3]
    path = variables.get("PYTHONPATH", "").split(os.pathsep)
    theirs = os.pathsep.join(part for part in path if part and Path(part).resolve() != own)
    found = {name: value for name, value in variables.items() if name != "PYTHONPATH"}
    return found | ({"PYTHONPATH": theirs} if theirs else {})


def report(seen: Seen, advices: list[Advice]) -> str:
    """The advice as text for a terminal."""
    cpu = seen.cpu
    gpus = [str(gpu.get("name")) for gpu in seen.facts.get("gpus") or []]
    title = ", ".join(
        [
            f"{cpu.get('model') or 'unknown CPU'}",
            f"{cpu.get('cores') or '?'} cores",
            f"{seen.facts.get('os') or 'unknown system'}",
            *gpus,
        ]
    )
    if not advices:
        return f"{title}\nNothing was found that would disturb a measurement.\n"
    lines = [
        title,
        f"{len(advices)} thing{'s' if len(advices) > 1 else ''} may disturb measurements here. "
        "gemmgrid changes none of them;",
        "the commands are for you to run, if the machine is yours.",
        "",
    ]
    for number, advice in enumerate(advices, 1):
        mark = "!" if advice.weight == "much" else " "
        head = f"{mark}{number:2}. {advice.finding[0].upper()}{advice.finding[1:]}"
        lines += [head, _wrapped("why", advice.why), _wrapped("do", advice.cure), ""]
    if any(advice.weight == "much" for advice in advices):
        lines.append("! moves numbers much; the others a little, or only sometimes.")
    return "\n".join(lines).rstrip() + "\n"


def _wrapped(label: str, content: str) -> str:
    return textwrap.fill(
        content,
        WIDTH,
        initial_indent=f"      {label + ':':5}",
        subsequent_indent=" " * 11,
        break_long_words=False,
        break_on_hyphens=False,
    )


def main(arguments: list[str] | None = None) -> int:
    argparse.ArgumentParser(prog="gemmgrid doctor", description=__doc__).parse_args(arguments)
    seen = look()
    print(report(seen, advise(seen)), end="")
    return 0
