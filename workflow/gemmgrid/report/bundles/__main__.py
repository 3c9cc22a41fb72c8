"""`gemmgrid bundle` and `gemmgrid unpack`: see --help of each."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from gemmgrid.report.bundles import pack, unpack
from gemmgrid.report.bundles.layout import MACHINE_FILE, BundleError
from gemmgrid.report.bundles.redact import Redactor


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="gemmgrid")
    commands = parser.add_subparsers(dest="what", required=True)
    packing = commands.add_parser("bundle", help="one machine's results into one file")
    packing.add_argument("--machine", help="default: the plan's, or the only one")
    packing.add_argument("--out", type=Path, help="default: gemmgrid-<machine>.zip")
    packing.add_argument(
        "--identify", action="store_true", help="leave paths, and name user and host"
    )
    taking = commands.add_parser("unpack", help="merge a bundle into the results")
    taking.add_argument("bundle", type=Path)
    taking.add_argument("--as", dest="name", help="another name for the machine")
    for command in (packing, taking):
        command.add_argument("--results", type=Path, default=Path("results"))
    given = parser.parse_args(arguments)
    try:
        told = _pack(given) if given.what == "bundle" else _unpack(given)
    except (BundleError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    print(told)
    return 0


def _pack(given: argparse.Namespace) -> str:
    machine = given.machine or _machine(given.results)
    out = given.out or Path(f"gemmgrid-{machine}.zip")
    redactor = None if given.identify else Redactor(Path())
    manifest = pack.pack(given.results, machine, out, redactor)
    runs = sum(file["runs"] or 0 for file in manifest["files"])
    state = {True: "complete", False: "partial", None: "of no study that is planned here"}
    return (
        f"{out}: {runs} runs in {len(manifest['files'])} files of {machine}, "
        f"{state[manifest['complete']]}"
    )


def _unpack(given: argparse.Namespace) -> str:
    arrived = unpack.unpack(given.bundle, given.results, given.name)
    told = (
        f"{arrived.machine}: {arrived.runs} runs came in: {arrived.cells} cells new here, "
        f"{arrived.merged} histories merged, {arrived.known} runs were here already"
    )
    return "\n".join([told, *arrived.notes])


def _machine(results: Path) -> str:
    """The machine of the present plan, or the only one that there is."""
    try:
        with (results / ".plan/plan.jsonl").open() as file:
            machine = str(json.loads(file.readline())["machine"])
            if "+" not in machine:  # a study for several machines
                return machine
    except (OSError, ValueError, KeyError):
        pass
    machines = sorted(path.parent.name for path in results.glob(f"*/{MACHINE_FILE}"))
    if len(machines) != 1:
        raise BundleError(
            f"which machine? Found: {', '.join(machines) or 'none'}. Name one: "
            "make bundle MACHINE=…"
        )
    return machines[0]


if __name__ == "__main__":
    sys.exit(main())
