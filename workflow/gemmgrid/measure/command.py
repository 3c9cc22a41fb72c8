"""The measured side's command: `block` measures one round of a block's cells, one after another;
`settle` joins what nodes have measured, and records what they have not; `keep` joins what they have
finished of all blocks, after an interruption.

Ends with exit code 0 and a run that says what happened, except when it is interrupted or the disk
refuses the record: then nothing is recorded, and the earlier history is as it was.
"""

from __future__ import annotations

import argparse
import errno
import json
import math
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gemmgrid.measure.machine.this_machine import MACHINE_FILE, ThisMachine, UnreadableError
from gemmgrid.measure.node import lost, node_match, slurm
from gemmgrid.measure.node.parts import Parts
from gemmgrid.measure.supervise import request as requests
from gemmgrid.measure.supervise.lock import LockError, measuring
from gemmgrid.measure.supervise.placement import LATER_S, TRIPS_FILE, lacking
from gemmgrid.measure.supervise.progress import Progress, outcome_line, passing_over
from gemmgrid.measure.supervise.rounds import gather
from gemmgrid.measure.supervise.supervisor import measure_cell, measure_more
from gemmgrid.records import files, history
from gemmgrid.records.cell import product_of
from gemmgrid.records.context import digest
from gemmgrid.records.foreign_runs import is_elsewhere
from gemmgrid.records.text import count

UNKEPT = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES})


class Interrupted(BaseException):
    """The job was told to stop, or the workflow above it is gone."""

    def __init__(self, exit_code: int) -> None:
        super().__init__()
        self.exit_code = exit_code


def main(arguments: list[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    parent = os.getppid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))

    def look() -> None:
        if os.getppid() != parent:
            raise Interrupted(1)

    try:
        study = json.loads((given.state / "study.json").read_text(encoding="utf-8"))
        if given.what == "keep":
            keep_finished(study, given.state)
            return 0
        block = find_block(given.state / "blocks.jsonl", given.block)
        if given.what == "block":
            with measuring(look):
                measure_block(block, study, given, look)
        else:
            settle_block(block, study, given)
        files.write_atomically(given.token, b"{}\n")
    except Interrupted as interruption:
        return interruption.exit_code
    except LockError as error:
        print(f"gemmgrid: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        if error.errno not in UNKEPT:
            raise
        print(
            f"{error.filename or 'results'}: the run could not be kept: {error.strerror}. "
            "Earlier runs are as they were; make room or set the permissions right, and start "
            "again.",
            file=sys.stderr,
        )
        return 1
    return 0


def find_block(path: Path, name: str) -> dict[str, Any]:
    """The block of this name from blocks.jsonl; KeyError without one."""
    start = f'{{"block":"{name}",'
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.startswith(start):
                return dict(json.loads(line))
    raise KeyError(f"{path} has no block {name}: it belongs to another start of the workflow")


def measure_block(
    block: Mapping[str, Any],
    study: Mapping[str, Any],
    given: argparse.Namespace,
    look: Callable[[], None],
) -> None:
    """One round of every cell, in an order of the round's own; what is there already stays.

    Of several rounds, a cell whose processes met the CPUs in a worse state than the machine's best
    has another turn when all have had theirs: by then the host may have moved the machine.
    """
    rounds, number = study["settings"]["rounds"], given.round
    teller, again = _Teller(given, number, rounds), []
    place = _place_on_node if given.keep_only else _place
    for entry in sorted(block["cells"], key=lambda one: _turn(study, number, one)):
        parts = Parts(given.state / "parts", entry, rounds)
        if not given.keep_only and parts.is_over:
            parts.forget()
            teller.leave_out()
            continue
        part = parts.get(number)
        if part is None:
            if parts.has_failed:  # and was killed before it could be joined
                if not given.keep_only and (whole := parts.join()):
                    teller.tell(whole, whole)
                continue
            request = _request(block, entry, study, given)
            part = measure_cell(request, look, number if rounds > 1 else None)
            part = place(part, request, given.results)
            if rounds == 1 and not given.keep_only:
                history.append(parts.history, part)
                teller.tell(part, part)
                continue
            parts.put(number, part)
            if rounds > 1 and part["status"] == "ok" and lacking(part):
                again.append((request, parts, part))
                continue
        teller.tell(part, None if given.keep_only else parts.join())
    time.sleep(LATER_S if again else 0)
    for request, parts, part in again:
        if more := measure_more(request, look, number, part):
            part = gather([part, place(more, request, given.results)])
            parts.put(number, part)
        teller.tell(part, None if given.keep_only else parts.join())


def _request(
    block: Mapping[str, Any],
    entry: Mapping[str, Any],
    study: Mapping[str, Any],
    given: argparse.Namespace,
) -> requests.Request:
    place = study["backends"][entry["spec"]["backend"]]
    environment = requests.environment_of(place, given.state / "environments")
    request = requests.make_request(block["machine"], entry, study, environment)
    request.trips = given.results / block["machine"] / TRIPS_FILE
    return request


def _turn(study: Mapping[str, Any], number: int, entry: Mapping[str, Any]) -> tuple[Any, ...]:
    """Products one after another, and of each its cells, both in another order in each round."""
    if study["settings"]["rounds"] == 1:
        return (entry["order"],)
    name = Path(entry["path"]).stem
    return tuple(
        digest([study["seed"], number, text]) for text in (product_of(name), entry["path"])
    )


class _Teller:
    """Says what comes of cells: each when it is whole or has failed, and now and then between."""

    SILENT_S = 10.0

    def __init__(self, given: argparse.Namespace, number: int, rounds: int) -> None:
        self._on_node, self._log = given.keep_only, given.log
        self._path = Path() if given.keep_only else given.state / "progress.json"
        self._round = f"  round {number} of {rounds}" if rounds > 1 else ""
        self._begin()
        self._spoke = -math.inf

    def _begin(self) -> None:
        self._progress = Progress(self._path, self._log)

    def tell(self, part: dict[str, Any], whole: dict[str, Any] | None = None) -> None:
        """One turn of a cell is over; `whole`: its run, where no more is to come."""
        with passing_over(f"{self._log or self._path} cannot be written"):
            if self._on_node:  # whoever started the workflow counts when it arrives
                self._progress.say(outcome_line(part) + self._round)
            elif whole or part["status"] != "ok":
                self._progress.done(outcome_line(whole or part))
            elif time.monotonic() - self._spoke > self.SILENT_S:
                self._progress.done(outcome_line(part) + self._round)
                self._spoke = time.monotonic()
            else:
                self._progress.done()
        self._begin()

    def leave_out(self) -> None:
        """Count a turn that is not taken any more."""
        with passing_over(f"{self._path} does not count this cell"):
            self._progress.done()
        self._begin()


def settle_block(
    block: Mapping[str, Any], study: Mapping[str, Any], given: argparse.Namespace
) -> None:
    """Append what nodes have measured; a cell without all of its rounds is recorded as lost.

    A token of an allocation that did not end well says why: {"lost": {"reason", "job_id", "node",
    "partition"}}.
    """
    gone = strange = 0
    endings = [json.loads(token.read_bytes()).get("lost") for token in given.tokens]
    ending = next(filter(None, endings), None) or {"reason": "its job ended without a word"}
    for entry in block["cells"]:
        parts = Parts(given.state / "parts", entry, study["settings"]["rounds"])
        parts.look_anew()
        if parts.is_over:
            parts.forget()
            continue
        run = parts.join()
        if run is None:
            run = lost.record(block["machine"], entry, study, ending)
            gone += 1
        strange += is_elsewhere(run)
        progress = Progress(given.state / "progress.json", given.log)
        progress.tick(f"{run['machine']}  {outcome_line(run)}")
    if gone:
        _say(f"{count('cell', gone)} lost; the same command sends them again")
    if strange:
        _say(
            f"{count('cell', strange)} ran on nodes that are not what config/machines.yaml "
            "promises: see the report. The same command sends them again"
        )


def keep_finished(study: Mapping[str, Any], state: Path) -> None:
    """Append what nodes have finished of the blocks on disk; what they have not may still come."""
    lines = (state / "blocks.jsonl").read_text(encoding="utf-8").splitlines()
    kept = 0
    for entry in (entry for line in lines for entry in json.loads(line)["cells"]):
        parts = Parts(state / "parts", entry, study["settings"]["rounds"])
        parts.look_anew()
        if parts.is_over:
            parts.forget()
        else:
            kept += parts.join() is not None
    if kept:
        _say(f"{count('cell', kept)} of allocations that did not end well are kept")


def _say(text: str) -> None:
    print(f"gemmgrid: {text}", file=sys.stderr, flush=True)


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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gemmgrid", description=__doc__)
    commands = parser.add_subparsers(dest="what", required=True)
    for name in ("block", "settle", "keep"):
        command = commands.add_parser(name)
        command.add_argument("--state", type=Path, default=Path("results/.plan"))
        if name == "keep":
            continue
        command.add_argument("block", help="its name in blocks.jsonl")
        command.add_argument("--results", type=Path, default=Path("results"))
        command.add_argument("--log", type=Path, help="file that keeps what is printed")
        command.add_argument("--token", type=Path, required=True, help="written as the last thing")
        if name == "block":
            command.add_argument("--round", type=int, required=True)
            command.add_argument(
                "--keep-only", action="store_true", help="append nothing: on a node"
            )
        else:
            command.add_argument(
                "--tokens", type=Path, nargs="*", default=[], help="what its allocations left"
            )
    return parser


def _interrupt(number: int, _frame: object) -> None:
    raise Interrupted(128 + number)
