"""The report's commands: tables, page, all, summary, gate, compare, check, references."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

# Modules are imported by the command that needs them: drawing takes seconds to import.


def parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(prog="gemmgrid")
    commands = root.add_subparsers(dest="command", required=True)
    results = argparse.ArgumentParser(add_help=False)
    results.add_argument("--results", type=Path, default="results", help="default: %(default)s")
    page = argparse.ArgumentParser(add_help=False)
    page.add_argument("--out", type=Path, default="reports/index.html", help="default: %(default)s")

    def command(name: str, text: str, *parents: argparse.ArgumentParser) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=text, description=text, parents=[results, *parents])

    command("tables", "write results/tables/{cells,runs}.{csv,parquet} and problems.csv")
    command("page", "write the report's page", page)
    command("all", "tables and page", page)
    command("summary", "print the current study's cells, what is missing and why", page)
    compare = command(
        "compare", "print two sides against each other: before and after, machines, backends, days"
    )
    compare.add_argument("--first", help="a machine, backend, machine/backend, day or now")
    compare.add_argument("--second", help="the same for the other side")
    check = command(
        "check", "exit 1 when a cell has left the band of its reference, 3 when that is undecided"
    )
    check.add_argument("--references", type=Path, required=True, help="resolved ones")
    made = command("references", "write config/references.yaml from the present state")
    made.add_argument(
        "--out", type=Path, default="config/references.yaml", help="default: %(default)s"
    )
    made.add_argument("--lower", type=float, default=-0.1)
    made.add_argument("--upper", type=float, default=0.25)
    made.add_argument("--replace", default="false", help="true: the file may exist")
    gate = command(
        "gate", "exit 0 and write the marker when the study is complete, else say what is missing"
    )
    gate.add_argument("--marker", type=Path, required=True, help="file that says complete")
    return root


def main(arguments: list[str] | None = None) -> int:
    asked = parser().parse_args(arguments)
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]  # for an ASCII terminal
    from gemmgrid.report.read.collect import collect

    collection = collect(asked.results)
    if asked.command == "gate":
        from gemmgrid.report.judge.completeness import gate

        return gate(collection, asked.marker)
    if asked.command == "summary":
        from gemmgrid.report.judge.findings import headlines
        from gemmgrid.report.read.coverage import coverage
        from gemmgrid.report.terminal.summary import summary

        findings = headlines(coverage(collection).rows)
        sys.stdout.write(summary(collection, asked.out, findings))
    elif asked.command == "compare":
        from gemmgrid.report.judge import compare_command

        try:
            found = compare_command.pairs(collection, asked.first, asked.second)
        except compare_command.NoSuchSideError as error:
            print(error, file=sys.stderr)
            return 1
        sys.stdout.write(compare_command.text(found))
    elif asked.command in ("check", "references"):
        from gemmgrid.report.judge import check

        if asked.command == "check":
            judged = check.judge(collection, check.read(asked.references))
            sys.stdout.write(check.text(judged))
            return check.exit_status(judged)
        replace = asked.replace.lower() == "true"
        try:
            print(check.write(collection, asked.out, asked.lower, asked.upper, replace))
        except check.ReferencesExistError as error:
            print(error, file=sys.stderr)
            return 1
    if asked.command in ("tables", "all"):
        from gemmgrid.report import tables

        tables.write(collection)
    if asked.command in ("page", "all"):
        from gemmgrid.report.lesson import answers
        from gemmgrid.report.page import page

        page.write(collection, asked.out)
        answers.write(collection, asked.out.parent)
    return 0
