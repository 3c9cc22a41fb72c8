"""Runs of a SLURM campaign until they stand in their histories: nothing measured is lost.

Snakemake removes the outputs of all jobs of a group when one of them fails or SLURM ends it. So a
job writes its run to a file of its own first, which Snakemake does not know. `gather` takes it
away when the run is in its history; after an interruption `recover` appends what was left.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gemmgrid.measure import slurm
from gemmgrid.measure.gather import gather
from gemmgrid.records import history
from gemmgrid.records.run import NotARunError, migrate


def put(file: Path, run: Mapping[str, Any]) -> None:
    """Keep a run."""
    history.write_atomically(file, history.dumps(run).encode())


def of_this_job(file: Path) -> dict[str, Any] | None:
    """The run that this very SLURM job has kept already: it was requeued since."""
    job, run = slurm.job_id(), _read(file)[0]
    return run if job and run and (run.get("slurm") or {}).get("job_id") == job else None


def forget(folder: Path, parts: list[dict[str, Any]]) -> None:
    """Remove the kept files of these parts, which are in their history now."""
    for part in parts:
        place, cell = folder / part["machine"] / part["backend"], part["cell"]["name"]
        for name, rounds in _by_cell(place.glob(f"{cell}.*.json")).items():
            if name == place / cell:
                for file in rounds.values():
                    if (_read(file)[0] or {}).get("id") == part["id"]:
                        file.unlink(missing_ok=True)


def recover(folder: Path, results: Path) -> list[Path]:
    """Append every run that is kept whole to its history; returns the histories that grew.

    A run of several rounds is whole when each round is there, made with the same settings. A
    history that holds the run already does not get it twice. What cannot be read or appended is
    said, and left alone.
    """
    grown = []
    for cell, files in _by_cell(folder.glob("*/*/*.json")).items():
        target = results / cell.relative_to(folder).parent / f"{cell.name}.jsonl"
        whole = _whole(cell.name, files)
        if not whole:
            continue
        try:
            if append_once(target, gather(whole)):
                grown.append(target)
        except OSError as error:
            _leave(target, f"cannot be written: {error.strerror}")
        except Exception as error:  # one odd file must not cost the others
            _leave(whole[0], f"is no part of a run: {type(error).__name__}: {error}")
        else:
            for file in whole:
                file.unlink(missing_ok=True)
    return grown


def append_once(path: Path, run: Mapping[str, Any]) -> bool:
    """Append a run unless the history holds it; whether it grew."""
    if path.exists() and any(one["id"] == run["id"] for one in history.read(path).runs):
        return False
    history.append(path, run)
    return True


def _by_cell(files: Iterable[Path]) -> dict[Path, dict[int, Path]]:
    """Files FOLDER/CELL.ROUND.json as FOLDER/CELL → round → file; a cell's name may hold dots."""
    found: dict[Path, dict[int, Path]] = defaultdict(dict)
    for file in sorted(files):
        cell, _, number = file.stem.rpartition(".")
        if cell and number.isdecimal():
            found[file.with_name(cell)][int(number)] = file
    return found


def _whole(cell: str, files: Mapping[int, Path]) -> list[Path]:
    """The files of all rounds of one run, in order; empty where a round is missing.

    Of a study that was changed in between, older rounds can lie beside newer ones.
    """
    parts: dict[int, dict[str, Any]] = {}
    for number, file in files.items():
        part, problem = _read(file)
        problem = problem or _problem(part or {}, cell)
        if problem:
            _leave(file, problem)
        elif part:
            parts[number] = part
    if not parts:
        return []
    latest = max(parts.values(), key=lambda part: str(part["started_at"]))
    same = [number for number, part in parts.items() if _made_as(part) == _made_as(latest)]
    rounds = range(1, latest["settings"].get("rounds", 1) + 1)
    return [files[number] for number in rounds] if set(rounds) <= set(same) else []


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
