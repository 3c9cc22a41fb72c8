"""The report's commands: tables, page, all, summary, gate, compare, check, references."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gemmgrid.report.read.collect import Collection

RESULTS = Path("results")
REPORT = Path("reports/index.html")
REFERENCES = Path("config/references.yaml")


def parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(prog="gemmgrid")
    commands = root.add_subparsers(dest="command", required=True)
    texts = {
        "tables": "write results/tables/{cells,runs}.{csv,parquet} and problems.csv",
        "page": "write the report's page",
        "all": "tables and page",
        "summary": "print the current study's cells, what is missing and why",
        "compare": "print two sides against each other: before and after, machines, backends, days",
        "check": "exit 1 when a cell has left the band of its reference",
        "references": "write config/references.yaml from the present state",
        "gate": "exit 0 and write the marker when the study is complete, else say what is missing",
    }
    for name, text in texts.items():
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("--results", type=Path, default=RESULTS, help="default: %(default)s")
        if name in ("page", "all", "summary"):
            command.add_argument("--out", type=Path, default=REPORT, help="default: %(default)s")
        if name == "compare":
            command.add_argument("--first", help="a machine, backend, machine/backend, day or now")
            command.add_argument("--second", help="the same for the other side")
        if name == "check":
            command.add_argument("--references", type=Path, required=True, help="resolved ones")
        if name == "references":
            command.add_argument(
                "--out", type=Path, default=REFERENCES, help="default: %(default)s"
            )
            command.add_argument("--lower", type=float, default=-0.1)
            command.add_argument("--upper", type=float, default=0.25)
            command.add_argument("--replace", default="false", help="true: the file may exist")
        if name == "gate":
            command.add_argument(
                "--marker", type=Path, required=True, help="file that says complete"
            )
    return root


def main(arguments: list[str] | None = None) -> int:
    asked = parser().parse_args(arguments)
    # Imports wait until it is known what is needed: drawing takes seconds to import.
    if asked.command == "gate":
        from gemmgrid.report.judge.gate import gate

        return gate(asked.results, asked.marker)
    if asked.command == "summary":
        from gemmgrid.report.terminal.summary import summary

        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]  # for an ASCII terminal
        sys.stdout.write(summary(asked.results, asked.out))
        return 0
    from gemmgrid.report.read.collect import collect

    if asked.command in ("compare", "check", "references"):
        return answer(asked, collect(asked.results))
    collection = collect(asked.results)
    if asked.command in ("tables", "all"):
        from gemmgrid.report import tables

        tables.write(collection)
    if asked.command in ("page", "all"):
        from gemmgrid.report.page import page

        page.write(collection, asked.out)
    return 0


def answer(asked: argparse.Namespace, collection: Collection) -> int:
    """The commands that print something about the results as they are."""
    from gemmgrid.report.judge import check, sides

    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]  # for an ASCII terminal
    try:
        if asked.command == "compare":
            sys.stdout.write(sides.text(sides.pairs(collection, asked.first, asked.second)))
            return 0
        if asked.command == "check":
            found = check.judge(collection, check.read(asked.references))
            sys.stdout.write(check.text(found))
            return 1 if any(one.outcome == check.FAIL for one in found) else 0
        replace = asked.replace.lower() == "true"
        count = check.write(collection, asked.out, asked.lower, asked.upper, replace)
    except (sides.NoSuchSideError, check.ReferencesExistError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{asked.out}: {count} references written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
