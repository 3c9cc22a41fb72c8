"""Runs of a SLURM campaign until they stand in their histories: nothing measured is lost.

Snakemake removes the outputs of all jobs of a group when one of them fails or SLURM ends it. So a
job writes its run to a file of its own first, which Snakemake does not know. `gather` takes it
away when the run is in its history; after an interruption `recover` appends what was left.

The file is <machine>/<backend>/<cell>.<round>.<SLURM job's id>.json in the folder of kept runs: two
jobs that measure the same cell, as after a kill of the workflow, keep two runs.
"""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gemmgrid.measure.node import slurm
from gemmgrid.measure.supervise.progress import passing_over
from gemmgrid.measure.supervise.rounds import gather
from gemmgrid.records import history
from gemmgrid.records.files import PASSING
from gemmgrid.records.run import NotARunError, migrate

PAUSE_S = 1.0
"""Before the second and last try to write a run that a network file system refused."""
OUTSIDE = "local"
"""Stands for the job's id outside SLURM."""


@dataclass(frozen=True)
class Part:
    """One kept file: a round of a run."""

    file: Path
    round: int
    run: dict[str, Any]

    @property
    def started_at(self) -> str:
        return str(self.run["started_at"])


def own_file(file: Path) -> Path:
    """FOLDER/CELL.ROUND.json → FOLDER/CELL.ROUND.JOB.json, with the job that this process is of."""
    return file.with_name(f"{file.stem}.{slurm.job_id() or OUTSIDE}.json")


def put(file: Path, run: Mapping[str, Any]) -> Path:
    """Keep a run of this job; `file` is FOLDER/CELL.ROUND.json. Returns the file it is in."""
    own, content = own_file(file), history.dumps(run).encode()
    try:
        history.write_atomically(own, content)
    except OSError as error:
        if error.errno not in PASSING:
            raise
        time.sleep(PAUSE_S)
        history.write_atomically(own, content)
    return own


def of_this_job(file: Path) -> dict[str, Any] | None:
    """The run that this very SLURM job has kept already: it was requeued since."""
    if slurm.job_id() is None:
        return None
    run = _read(own_file(file))[0]
    return run if run and _problem(run, file.stem.rpartition(".")[0]) is None else None


def forget(folder: Path, parts: list[dict[str, Any]]) -> None:
    """Remove the kept files of these parts, which are in their history now. No OSError comes out:
    what is left is recognised by its id, and removed by the next `recover`."""
    for part in parts:
        place, cell = folder / part["machine"] / part["backend"], part["cell"]["name"]
        with passing_over(f"{place}/{cell}: what was kept cannot be removed"):
            for _, file in _by_cell(place.glob(f"{cell}.*.json")).get(place / cell, []):
                if (_read(file)[0] or {}).get("id") == part["id"]:
                    file.unlink(missing_ok=True)


def recover(folder: Path, results: Path, parts: Path | None = None) -> list[Path]:
    """Append every run that is kept whole to its history, oldest first; the histories that grew.

    With one round each file is a run. A run of several rounds is whole when each round is there,
    made with the same settings; the newest part of each round makes one, and so on while there are
    parts. A part that is left over stays until its cell's history holds a newer run. A history
    that holds a run already does not get it twice. What cannot be read or appended is said, and
    left alone.

    parts   where the same rounds lie as outputs of Snakemake's jobs, CELL.ROUND.json: of the cells
            whose runs are in their histories now they are removed, or a later gather would take
            them for a new measurement
    """
    grown: dict[Path, None] = {}
    for cell, files in _by_cell(folder.glob("*/*/*.json")).items():
        target = results / cell.relative_to(folder).parent / f"{cell.name}.jsonl"
        runs, rest = _runs(_usable(cell.name, files))
        outcomes = [_take_over(target, run) for run in runs]
        if any(outcomes):
            grown[target] = None
        if parts and any(outcome is not None for outcome in outcomes):
            _remove_copies(parts / cell.relative_to(folder))
        _remove_superseded(target, rest)
    return list(grown)


def append_once(path: Path, run: Mapping[str, Any]) -> bool:
    """Append a run unless the history holds it; whether it grew."""
    if history.holds(path, run["id"]):
        return False
    history.append(path, run)
    return True


def _take_over(target: Path, run: list[Part]) -> bool | None:
    """Append one run and remove its files; whether the history grew, None where that failed."""
    try:
        grew = append_once(target, gather([part.file for part in run]))
    except OSError as error:
        _leave(target, f"cannot be written: {error.strerror}")
    except Exception as error:  # one odd file must not cost the others
        _leave(run[0].file, f"is no part of a run: {type(error).__name__}: {error}")
    else:
        for part in run:
            with passing_over(f"{part.file} cannot be removed"):
                part.file.unlink(missing_ok=True)
        return grew
    return None


def _remove_copies(cell: Path) -> None:
    """Remove FOLDER/CELL.ROUND.json of every round."""
    with passing_over(f"{cell}: Snakemake's copies of its rounds cannot be removed"):
        for file in list(cell.parent.glob(f"{cell.name}.*.json")):
            if file.name.removeprefix(f"{cell.name}.").removesuffix(".json").isdecimal():
                file.unlink(missing_ok=True)


def _remove_superseded(target: Path, rest: list[Part]) -> None:
    """Remove parts that are older than a run of the history: no run will ever need them."""
    runs = history.read(target).runs if rest and target.exists() else []
    ends = [run.get("ended_at") or run["started_at"] for run in runs if run["status"] != "lost"]
    for part in rest:
        if part.started_at < max(map(str, ends), default=""):
            with passing_over(f"{part.file} cannot be removed"):
                part.file.unlink(missing_ok=True)
                print(
                    f"gemmgrid: {part.file} is removed: it is a round of a run that was never "
                    f"whole, and {target} holds a newer one",
                    file=sys.stderr,
                    flush=True,
                )


def _by_cell(files: Iterable[Path]) -> dict[Path, list[tuple[int, Path]]]:
    """Files FOLDER/CELL.ROUND.JOB.json as FOLDER/CELL → (round, file); a cell's name holds dots."""
    found: dict[Path, list[tuple[int, Path]]] = defaultdict(list)
    for file in sorted(files):
        numbered, _, job = file.stem.rpartition(".")
        cell, _, number = numbered.rpartition(".")
        if cell and job and number.isdecimal():
            found[file.with_name(cell)].append((int(number), file))
    return found


def _usable(cell: str, files: Iterable[tuple[int, Path]]) -> list[Part]:
    """What can be read of the cell's files; the rest is said."""
    parts = []
    for number, file in files:
        run, problem = _read(file)
        problem = problem or _problem(run or {}, cell)
        if problem:
            _leave(file, problem)
        elif run:
            parts.append(Part(file, number, run))
    return parts


def _runs(parts: list[Part]) -> tuple[list[list[Part]], list[Part]]:
    """Whole runs, oldest first, each with its rounds in order; and the parts that are left over.

    Of a study that was changed in between, older rounds can lie beside newer ones.
    """
    alike: list[tuple[tuple[Any, ...], dict[int, list[Part]]]] = []
    for part in sorted(parts, key=lambda part: part.started_at, reverse=True):
        made_as = _made_as(part.run)
        by_round = next((rounds for known, rounds in alike if known == made_as), None)
        if by_round is None:
            by_round = defaultdict(list)
            alike.append((made_as, by_round))
        by_round[part.round].append(part)
    runs: list[list[Part]] = []
    for (settings, *_), by_round in alike:
        rounds = range(1, settings.get("rounds", 1) + 1)
        while all(by_round.get(number) for number in rounds):
            runs.append([by_round[number].pop(0) for number in rounds])
    used = {part.file for run in runs for part in run}
    runs.sort(key=lambda run: run[0].started_at)
    return runs, [part for part in parts if part.file not in used]


def _made_as(part: Mapping[str, Any]) -> tuple[Any, ...]:
    """What the rounds of one run have in common."""
    environment = part.get("environment") or {}
    return (
        part["settings"],
        *(part.get(key) for key in ("machine", "backend", "adapter", "device")),
        *(environment.get(key) for key in ("deploy", "name")),
    )


def _problem(part: dict[str, Any], cell: str) -> str | None:
    """Why a document cannot be a part of this cell's run."""
    try:
        run = migrate(part)
    except (NotARunError, ValueError, TypeError, OverflowError) as error:
        return f"is no run: {error}"
    if run["cell"].get("name") != cell:
        return f"holds another cell: {run['cell'].get('name')}"
    settings = run.get("settings")
    rounds = settings.get("rounds", 1) if isinstance(settings, dict) else None
    return None if type(rounds) is int and rounds > 0 else "does not say of how many rounds it is"


def _leave(file: Path, problem: str) -> None:
    print(f"gemmgrid: {file} {problem}; it is left alone", file=sys.stderr, flush=True)


def _read(file: Path) -> tuple[dict[str, Any] | None, str | None]:
    """The document of a file, or why there is none."""
    try:
        document = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        return None, f"cannot be read: {error}"
    if not isinstance(document, dict):
        return None, f"is no run but {type(document).__name__}"
    return document, None
