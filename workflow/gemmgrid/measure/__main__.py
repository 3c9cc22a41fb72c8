"""The measured side's command: `cell` measures, `round` measures one round, `gather` joins rounds.

Always ends with exit code 0 and a run that says what happened, except when it is interrupted or
the disk refuses the record: then nothing is recorded, and the earlier history is as it was.
"""

from __future__ import annotations

import argparse
import errno
import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from gemmgrid.measure import request as requests
from gemmgrid.measure.gather import gather
from gemmgrid.measure.lock import measuring
from gemmgrid.measure.progress import Progress, outcome_line
from gemmgrid.measure.supervisor import measure_cell
from gemmgrid.measure.whereabouts import Whereabouts
from gemmgrid.records import history


class Interrupted(BaseException):
    """The job was told to stop, or the workflow above it is gone."""

    def __init__(self, exit_code: int) -> None:
        super().__init__()
        self.exit_code = exit_code


def main() -> int:
    arguments = _arguments()
    parent = os.getppid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))

    def look() -> None:
        if os.getppid() != parent:
            raise Interrupted(1)

    try:
        if arguments.what == "gather":
            _append(arguments)
        else:
            with measuring(look):
                _measure(arguments, look)
    except Interrupted as interruption:
        return interruption.exit_code
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES):
            raise
        print(
            f"{arguments.out}: the run could not be kept: {error.strerror}. Earlier runs are as "
            "they were; make room or set the permissions right, and start again.",
            file=sys.stderr,
        )
        return 1
    return 0


def _measure(arguments: argparse.Namespace, look: Callable[[], None]) -> None:
    environment = _environment(arguments)
    request = requests.read_request(arguments.machine, arguments.spec, arguments.study, environment)
    progress = Progress(arguments.study.with_name("progress.json"), arguments.log)
    rounds = [arguments.round] if arguments.what == "round" else None
    run = measure_cell(request, look, rounds)
    folder = arguments.results / request.machine
    if Whereabouts(run["device"]).write(folder):
        run["flags"] = sorted({*run["flags"], "other-machine"})
    if rounds:
        history.write_atomically(arguments.out, history.dumps(run).encode())
    else:
        history.append(arguments.out, run)
    progress.done(outcome_line(run))


def _append(arguments: argparse.Namespace) -> None:
    run = gather(arguments.parts)
    history.append(arguments.out, run)
    Progress(Path(), arguments.log).say(outcome_line(run))


def _environment(arguments: argparse.Namespace) -> requests.Environment:
    if arguments.deploy == "venv":
        return requests.venv(arguments.environment, arguments.python, arguments.marker)
    if arguments.deploy == "conda":
        return requests.conda(arguments.environment, arguments.prefix)
    return requests.at_hand(arguments.environment, arguments.python, arguments.modules)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="gemmgrid.measure", description=__doc__)
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
    command = commands.add_parser("gather")
    command.add_argument("--out", type=Path, required=True)
    command.add_argument("--log", type=Path, help="file that keeps what is printed")
    command.add_argument("parts", type=Path, nargs="+")
    return parser.parse_args()


def _interrupt(number: int, _frame: object) -> None:
    raise Interrupted(128 + number)


if __name__ == "__main__":
    sys.exit(main())
