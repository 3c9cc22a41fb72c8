"""The measured side's command: `cell` measures, `round` measures one round, `gather` joins rounds;
`recover` appends what a SLURM campaign left behind, `lost` records what it lost.

Always ends with exit code 0 and a run that says what happened, except when it is interrupted or
the disk refuses the record: then nothing is recorded, and the earlier history is as it was.
`gather` also fails where the history holds its run already: then nothing was measured.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gemmgrid.measure.machine.this_machine import MACHINE_FILE, ThisMachine, UnreadableError
from gemmgrid.measure.node import lost, node_match, recovery, slurm
from gemmgrid.measure.supervise import request as requests
from gemmgrid.measure.supervise.lock import LockError, measuring
from gemmgrid.measure.supervise.progress import Progress, outcome_line, passing_over
from gemmgrid.measure.supervise.rounds import gather
from gemmgrid.measure.supervise.supervisor import measure_cell
from gemmgrid.records import history


class Interrupted(BaseException):
    """The job was told to stop, or the workflow above it is gone."""

    def __init__(self, exit_code: int) -> None:
        super().__init__()
        self.exit_code = exit_code


def main(words: list[str] | None = None) -> int:
    arguments = _arguments(words)
    parent = os.getppid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))

    def look() -> None:
        if os.getppid() != parent:
            raise Interrupted(1)

    try:
        if arguments.what in ("cell", "round"):
            with measuring(look):
                _measure(arguments, look)
        else:
            return {"gather": _append, "recover": _recover, "lost": _lose}[arguments.what](
                arguments
            )
    except Interrupted as interruption:
        return interruption.exit_code
    except LockError as error:
        print(f"gemmgrid: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES):
            raise
        print(
            f"{getattr(arguments, 'out', 'results')}: the run could not be kept: {error.strerror}. "
            "Earlier runs are as they were; make room or set the permissions right, and start "
            "again.",
            file=sys.stderr,
        )
        return 1
    return 0


def _measure(arguments: argparse.Namespace, look: Callable[[], None]) -> None:
    environment = _environment(arguments)
    request = requests.read_request(arguments.machine, arguments.spec, arguments.study, environment)
    on_node = arguments.what == "round" and arguments.keep
    counter = Path() if on_node else arguments.study.with_name("progress.json")
    progress = Progress(counter, arguments.log)
    told = f"{arguments.log or progress.path} cannot be written"
    if arguments.what == "cell":
        run = _place(measure_cell(request, look), request, arguments.results)
        history.append(arguments.out, run)
        with passing_over(told):
            progress.done(outcome_line(run))
        return
    earlier = recovery.of_this_job(arguments.keep) if on_node else None
    if earlier:
        run = earlier
    else:
        place = _place_on_node if on_node else _place
        run = measure_cell(request, look, [arguments.round])
        run = place(run, request, arguments.results)
        if on_node:
            recovery.put(arguments.keep, run)
    history.write_atomically(arguments.out, history.dumps(run).encode())
    # Whoever started the workflow counts what nodes have done when it arrives.
    with passing_over(told):
        progress.say(outcome_line(run)) if on_node else progress.done(outcome_line(run))


def _place(run: dict[str, Any], request: requests.Request, results: Path) -> dict[str, Any]:
    """The run with where it was made: the SLURM job, and whether this is the machine it is for.

    Changes `run` step by step, so that an error leaves in it what is known by then.
    """

    def judge(broken: list[str]) -> None:
        run["promise"] = {**request.promise, "broken": broken} if request.promise else None
        run["flags"] = sorted({*run["flags"], *(["other-machine"] if broken else [])})

    run["slurm"] = slurm.describe()
    if run["slurm"] and run["slurm"]["exclusive"] is not None:
        shared = set() if run["slurm"]["exclusive"] else {"shared-node"}
        run["flags"] = sorted({*run["flags"]} - {"shared-node"} | shared)
    here, folder = ThisMachine(run["device"]), results / request.machine
    broken = node_match.broken(request.promise, here.facts)
    judge(broken)
    try:
        # A node that is not as promised must not become what its machine is known by.
        stranger = here.stranger_to(folder) if broken else here.write(folder)
    except UnreadableError as error:  # which says nothing about the hardware here
        run["unknown"]["promise"] = str(error)
        stranger = None
    if stranger:
        judge([*broken, stranger])
    return run


def _place_on_node(run: dict[str, Any], request: requests.Request, results: Path) -> dict[str, Any]:
    """The same, but a shared file that cannot be written costs nobody the measurement."""
    try:
        return _place(run, request, results)
    except OSError as error:
        file = results / request.machine / MACHINE_FILE
        run["unknown"]["promise"] = f"{file} could not be kept: {error}"
        print(f"gemmgrid: {run['unknown']['promise']}", file=sys.stderr, flush=True)
        return run


def _append(arguments: argparse.Namespace) -> int:
    run = gather(arguments.parts)
    parts = [json.loads(path.read_text()) for path in arguments.parts]
    grew = recovery.append_once(arguments.out, run)
    if arguments.kept:
        recovery.forget(arguments.kept, parts)
    progress = Progress(arguments.progress or Path(), arguments.log)
    told = f"{arguments.log} cannot be written"
    if not grew:
        for path in arguments.parts:
            with passing_over(f"{path} cannot be removed"):
                path.unlink(missing_ok=True)
        with passing_over(told):
            Progress(Path(), arguments.log).say(
                f"gemmgrid: {arguments.out} holds this run already, so nothing was measured now. "
                "What was left of it is removed: starting again measures."
            )
        return 1
    if arguments.progress:
        progress.tick(f"{run['machine']}  {outcome_line(run)}")
    else:
        with passing_over(told):
            progress.say(outcome_line(run))
    return 0


def _recover(arguments: argparse.Namespace) -> int:
    grown = recovery.recover(arguments.kept, arguments.results, arguments.parts)
    for path in grown:
        print(path)
    if grown:
        cells = "1 cell" if len(grown) == 1 else f"{len(grown)} cells"
        print(f"gemmgrid: {cells} of allocations that did not end well are kept", file=sys.stderr)
    return 0


def _lose(arguments: argparse.Namespace) -> int:
    for entry in json.loads(arguments.cells.read_text()):
        lost.record(entry, arguments.study)
    return 0


def _environment(arguments: argparse.Namespace) -> requests.Environment:
    if arguments.deploy == "venv":
        return requests.venv(arguments.environment, arguments.python, arguments.marker)
    if arguments.deploy == "conda":
        return requests.conda(arguments.environment, arguments.prefix)
    return requests.at_hand(arguments.environment, arguments.python, arguments.modules)


def _arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="gemmgrid", description=__doc__)
    commands = parser.add_subparsers(dest="what", required=True)
    for name in ("cell", "round"):
        command = commands.add_parser(name)
        command.add_argument("--machine", required=True)
        command.add_argument("--spec", required=True, help="the cell and its backend, as JSON")
        command.add_argument("--study", type=Path, required=True, help="results/.plan/study.json")
        command.add_argument("--results", type=Path, default=Path("results"))
        command.add_argument("--deploy", choices=("venv", "conda", "none"), required=True)
        command.add_argument("--environment", required=True)
        command.add_argument("--python", default="python")
        command.add_argument("--marker", type=Path)
        command.add_argument("--prefix", default="", help="the conda environment that is meant")
        command.add_argument("--modules", nargs="*", default=[], help="modules that must be loaded")
        command.add_argument("--out", type=Path, required=True)
        command.add_argument("--log", type=Path, help="file that keeps what is printed")
        if name == "round":
            command.add_argument("--round", type=int, required=True)
            command.add_argument("--keep", type=Path, help="outlives a lost job; see measure.kept")
    command = commands.add_parser("gather")
    command.add_argument("--out", type=Path, required=True)
    command.add_argument("--log", type=Path, help="file that keeps what is printed")
    command.add_argument("--kept", type=Path, help="folder of the runs that jobs keep")
    command.add_argument("--progress", type=Path, help="file that counts, as for cells")
    command.add_argument("parts", type=Path, nargs="+")
    command = commands.add_parser("recover")
    command.add_argument("--kept", type=Path, required=True)
    command.add_argument("--results", type=Path, default=Path("results"))
    command.add_argument("--parts", type=Path, help="folder of the rounds that Snakemake keeps")
    command = commands.add_parser("lost")
    command.add_argument("--study", type=Path, required=True)
    command.add_argument("--cells", type=Path, required=True, help="JSON: see measure.lost")
    return parser.parse_args(words)


def _interrupt(number: int, _frame: object) -> None:
    raise Interrupted(128 + number)


if __name__ == "__main__":
    sys.exit(main())
