"""What machines are like now: this one is asked at once, others have answered a job of `stale`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from gemmgrid.plan.change import refresh, standing
from gemmgrid.plan.plan import Plan

LATELY_S = 3600
"""For so long an answer from behind SLURM counts as what the machine is like."""
SITE = "GEMMGRID_SITE_PYTHONPATH"
"""The site's PYTHONPATH goes on under this name, because the package's takes its place."""


class UnknownContextError(RuntimeError):
    """A machine could not be asked, or has not answered lately; the text is the whole message."""


@dataclass
class Machines:
    """The machines of a plan.

    root     the project's folder
    answers  the path of a machine's answer, with {machine} in it
    looker   the command that asks the machine on which it runs
    study    --configfile and --config as they were given
    prefix   where Snakemake keeps the conda environment of that name
    """

    plan: Plan
    root: Path
    answers: str
    looker: Sequence[str]
    study: Sequence[str]
    prefix: Callable[[str], str | None]
    latest: standing.Latest = field(default_factory=standing.Latest)

    @cached_property
    def names(self) -> list[str]:
        return sorted({cell.machine for cell in self.plan.cells})

    @cached_property
    def entries(self) -> list[standing.Entry]:
        """The planned cells, as far as their standing needs them."""
        return [standing.Entry(c.machine, c.backend, c.cell, c.path) for c in self.plan.cells]

    def answer(self, machine: str) -> Path:
        return Path(self.answers.format(machine=machine))

    def question(self, machine: str) -> str:
        """What a machine is asked: its backends, and the packages and files that runs named."""
        plan = self.plan
        asked = standing.request(
            *(machine, self.entries, plan.backends, plan.deploy),
            *(self.root, self.latest, self.prefix),
        )
        return json.dumps(asked, sort_keys=True)

    def command(self, target: str) -> str:
        """The command for another target of the same study, to be pasted."""
        return refresh.command(target, self.study, self.plan.deploy, bool(self.plan.machines))

    def listing_words(self) -> list[str]:
        """Arguments of `gemmgrid.plan.change.stale` beside the plan's file."""
        again, one_cell = self.command("refresh"), self.command("-f {}")
        answers = [str(self.answer(machine)) for machine in self.names]
        return ["--again", again, "--one-cell", one_cell, *answers]

    def chosen(self, only: str | None, age: str | None) -> list[str]:
        """The paths of the cells that a refresh measures again, told in one line.

        UnknownContextError; refresh.WrongChoiceError where the words choose nothing that there is.
        """
        read = self._last_look if self.plan.machines else self._look_here
        now = {machine: read(machine) for machine in self.names}
        found = refresh.chosen(standing.standings(self.entries, now, self.latest), only, age)
        print(f"gemmgrid: {refresh.told(found, only, age)}", file=sys.stderr)
        return [one.entry.path for one in found]

    def _look_here(self, machine: str) -> dict[str, Any]:
        answer = self.answer(machine)
        environment = {**os.environ, SITE: os.environ.get("PYTHONPATH", "")}
        command = [*self.looker, "--request", self.question(machine), "--out", str(answer)]
        if subprocess.run(command, env=environment, check=False).returncode:
            raise UnknownContextError(
                "this machine's context could not be read: see the message above"
            )
        return standing.read_answer(answer)

    def _last_look(self, machine: str) -> dict[str, Any]:
        answer = self.answer(machine)
        if not answer.exists() or answer.stat().st_mtime < time.time() - LATELY_S:
            raise UnknownContextError(
                f"what machine {machine} is like now is not known: {answer} is missing or more "
                f"than an hour old. Ask a node of it first: {self.command('stale')}"
            )
        return standing.read_answer(answer)
