"""The one command: `python -m gemmgrid COMMAND …`. What follows a command is its module's own.

`--log FILE` before the command keeps its standard error in that file as well.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from gemmgrid.logged import keeping_stderr

REPORT, BUNDLES = "gemmgrid.report.command", "gemmgrid.report.bundles.command"
MEASURE = "gemmgrid.measure.command"


@dataclass(frozen=True)
class Command:
    """module: its `main(arguments)` returns the exit code; words: put before what was typed."""

    module: str
    help: str
    words: tuple[str, ...] = ()


FOR_PEOPLE = {
    "report": Command(REPORT, "tables and page from what lies under results/", ("all",)),
    "summary": Command(REPORT, "the study's cells in the terminal", ("summary",)),
    "compare": Command(REPORT, "two sides against each other", ("compare",)),
    "check": Command("gemmgrid.check", "fail when a cell has left its reference's band"),
    "references": Command(REPORT, "write config/references.yaml", ("references",)),
    "bundle": Command(BUNDLES, "one machine's results in one file", ("bundle",)),
    "unpack": Command(BUNDLES, "take in the results of another machine", ("unpack",)),
    "doctor": Command("gemmgrid.measure.doctor.command", "what makes timings noisy here"),
}
FOR_THE_WORKFLOW = {
    "make": Command("gemmgrid.make", "start what a target of the Makefile stands for"),
    "build": Command("gemmgrid.plan.environments.command", "one environment, by uv", ("build",)),
    "conda": Command("gemmgrid.plan.environments.command", "describe one of conda's", ("conda",)),
    "plan": Command("gemmgrid.plan.command", "write the plan and the blocks of a start"),
    "block": Command(MEASURE, "measure one round of a block of cells", ("block",)),
    "settle": Command(MEASURE, "append what nodes have measured of a block", ("settle",)),
    "keep": Command(MEASURE, "append what an interrupted start left behind", ("keep",)),
    "explain": Command("gemmgrid.measure.explain", "what runs under one expression"),
    "context": Command("gemmgrid.measure.supervise.current_context", "this machine's context now"),
    "stale": Command("gemmgrid.plan.change.stale", "runs of another context than that"),
    "resolve": Command("gemmgrid.plan.change.references", "references, as single cells"),
    "judge": Command(REPORT, "fail when one of those has left its band", ("check",)),
    "stamp": Command("gemmgrid.records.stamp", "what the tables are made from"),
    "tables": Command(REPORT, "the report's tables", ("tables",)),
    "page": Command(REPORT, "the report's page", ("page",)),
    "gate": Command(REPORT, "fail where the study is not complete", ("gate",)),
}
COMMANDS = FOR_PEOPLE | FOR_THE_WORKFLOW


def usage() -> str:
    """Every command with a line of help."""

    def listed(commands: Mapping[str, Command]) -> list[str]:
        return [f"  {name:<11} {command.help}" for name, command in commands.items()]

    return "\n".join(
        [
            "usage: gemmgrid COMMAND …     (gemmgrid COMMAND --help: its arguments)",
            "",
            "commands:",
            *listed(FOR_PEOPLE),
            "",
            "started by the workflow:",
            *listed(FOR_THE_WORKFLOW),
            "",
        ]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code, 2 where there is no such command."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]  # for an ASCII terminal
    if given[:1] == ["--log"] and len(given) > 1:
        with keeping_stderr(Path(given[1])):
            return main(given[2:])
    if given and given[0] in COMMANDS:
        command = COMMANDS[given[0]]
        # Only now: a command loads what it needs, and drawing alone takes seconds to import.
        return int(import_module(command.module).main([*command.words, *given[1:]]))
    if not given or given[0] in ("help", "-h", "--help"):
        sys.stdout.write(usage())
        return 0
    sys.stderr.write(f"gemmgrid: {given[0]!r} is no command\n\n{usage()}")
    return 2


if __name__ == "__main__":
    sys.exit(main())
