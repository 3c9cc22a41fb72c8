"""python -m gemmgrid.report tables | page | all | summary | gate: see --help of each."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

RESULTS = Path("results")
REPORT = Path("reports/index.html")


def parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(prog="python -m gemmgrid.report", description=__doc__)
    commands = root.add_subparsers(dest="command", required=True)
    texts = {
        "tables": "write results/tables/{cells,runs}.{csv,parquet} and problems.csv",
        "page": "write the report's page",
        "all": "tables and page",
        "summary": "print the current study's cells, what is missing and why",
        "gate": "exit 0 and write the marker when the study is complete, else say what is missing",
    }
    for name, text in texts.items():
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("--results", type=Path, default=RESULTS, help="default: %(default)s")
        if name in ("page", "all", "summary"):
            command.add_argument("--out", type=Path, default=REPORT, help="default: %(default)s")
        if name == "gate":
            command.add_argument(
                "--marker", type=Path, required=True, help="file that says complete"
            )
    return root


def main(arguments: list[str] | None = None) -> int:
    asked = parser().parse_args(arguments)
    # Imports wait until it is known what is needed: drawing takes seconds to import.
    if asked.command == "gate":
        from gemmgrid.report.gate import gate

        return gate(asked.results, asked.marker)
    if asked.command == "summary":
        from gemmgrid.report.summary import summary

        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]  # for an ASCII terminal
        sys.stdout.write(summary(asked.results, asked.out))
        return 0
    from gemmgrid.report.collect import collect

    collection = collect(asked.results)
    if asked.command in ("tables", "all"):
        from gemmgrid.report import tables

        tables.write(collection)
    if asked.command in ("page", "all"):
        from gemmgrid.report import page

        page.write(collection, asked.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
