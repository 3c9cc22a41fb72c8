"""`gemmgrid bundle` and `gemmgrid unpack`: see --help of each."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from gemmgrid.records.names import name_problem
from gemmgrid.records.text import count
from gemmgrid.report.bundles import pack, unpack
from gemmgrid.report.bundles.layout import MACHINE_FILE, BundleError
from gemmgrid.report.bundles.redact import Redactor
from gemmgrid.report.read import plan_file
from gemmgrid.report.read.fields import clean

MOST_SHOWN = 10


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="gemmgrid")
    commands = parser.add_subparsers(dest="what", required=True)
    packing = commands.add_parser("bundle", help="one machine's results into one file")
    packing.add_argument("--machine", help="default: the plan's, or the only one")
    packing.add_argument("--out", type=Path, help="default: gemmgrid-<machine>.zip")
    packing.add_argument(
        "--identify", action="store_true", help="leave all as it is, name user and host"
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
        print(clean(str(error)), file=sys.stderr)
        return 1
    # Names and texts of someone else's files must not steer the terminal.
    print("\n".join(map(clean, told)))
    return 0


def _pack(given: argparse.Namespace) -> list[str]:
    machine = given.machine or _machine(given.results)
    out = given.out or Path(f"gemmgrid-{machine}.zip")
    packed = pack.pack(given.results, machine, out, None if given.identify else Redactor())
    state = {True: "complete", False: "partial", None: "of no study that is planned here"}
    told = [
        f"{out}: {count('run', packed.runs)} in {count('file', len(packed.manifest['files']))} of "
        f"{machine}, {state[packed.manifest['complete']]}"
    ]
    if packed.left_out:
        told.append(f"{count('line', len(packed.left_out))} not packed:")
        told += [f"  {pack.shown(problem)}" for problem in packed.left_out[:MOST_SHOWN]]
        if len(packed.left_out) > MOST_SHOWN:
            told.append(f"  and {len(packed.left_out) - MOST_SHOWN} more")
    return told


def _unpack(given: argparse.Namespace) -> list[str]:
    arrived = unpack.unpack(given.bundle, given.results, given.name)
    told = (
        f"{arrived.machine}: {count('run', arrived.runs)} came in: "
        f"{count('cell', arrived.cells)} new here, "
        f"{count('history', arrived.merged, 'histories')} merged, "
        f"{count('run', arrived.known)} here already"
    )
    return [told, *arrived.notes]


def _machine(results: Path) -> str:
    """The machine of the present plan, or the only one that there is."""
    plan = plan_file.read(results)
    if plan and name_problem(plan.machine) is None:  # it has a "+" in a study for several machines
        return str(plan.machine)
    machines = sorted(path.parent.name for path in results.glob(f"*/{MACHINE_FILE}"))
    if len(machines) != 1:
        raise BundleError(
            f"which machine? Found: {', '.join(machines) or 'none'}. Name one: "
            "make bundle MACHINE=…"
        )
    return machines[0]
