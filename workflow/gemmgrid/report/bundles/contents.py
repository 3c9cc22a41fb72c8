"""What a bundle may hold, asked of each line when it is packed and again when it is taken in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gemmgrid.records import history
from gemmgrid.records.foreign_runs import is_elsewhere
from gemmgrid.records.run import NotARunError, admit
from gemmgrid.records.run_types import Run
from gemmgrid.records.shape import keys_of
from gemmgrid.report.bundles.layout import MOST_LINE_BYTES
from gemmgrid.report.read.fields import clean

SHOWN = 5


class UnfitError(ValueError):
    """What stands there cannot be in a bundle; the text says why, without control characters."""


class Entry(NamedTuple):
    """A run of a bundle. host: the id of what made it, None for a lost job; own: whether it counts
    for the machine in whose folder it is."""

    id: str
    moment: str
    status: str
    host: str | None
    own: bool


class Runs:
    """The runs of one history, line by line."""

    def __init__(self, backend: str, cell: str) -> None:
        self._backend, self._cell = backend, cell
        self._seen: set[str] = set()

    def read(self, line: bytes) -> Entry:
        """The run of a line; UnfitError where it is none that belongs there.

        Every command reads runs by the same rules; what those read as unknown is unfit here.
        """
        if len(line) > MOST_LINE_BYTES:
            raise UnfitError(f"longer than {MOST_LINE_BYTES} bytes")
        run, problems = run_of(parse(line))
        found = entry(run)
        problems += [f"{key} is no key of a run" for key in run if key not in keys_of(Run)]
        if run["backend"] != self._backend:
            problems.append(f"a run of backend {run['backend']!r}")
        if run["cell"].get("name") != self._cell:
            problems.append(f"a run of {run['cell'].get('name')!r}")
        if found.id in self._seen:
            problems.append(f"the id {found.id!r} stands twice")
        if found.own and not found.host and found.status != "lost":
            problems.append("it does not tell on which host it was made, as only lost runs may")
        if problems:
            raise UnfitError("; ".join(clean(problem, 200) for problem in problems[:SHOWN]))
        self._seen.add(found.id)
        return found


def run_of(document: Any) -> tuple[dict[str, Any], list[str]]:
    """A line's run as every command reads it, and what in it is read as unknown; or UnfitError."""
    try:
        return admit(document)
    except (NotARunError, ValueError, TypeError, OverflowError) as error:
        raise UnfitError(clean(str(error))) from None


def entry(run: Mapping[str, Any]) -> Entry:
    """What is asked of a run when histories are put together."""
    host = run.get("host")
    identity = host.get("id") if isinstance(host, Mapping) else None
    return Entry(
        str(run["id"]),
        history.moment(run),
        str(run["status"]),
        str(identity) if identity else None,
        not is_elsewhere(run),
    )


def machine_file(content: bytes) -> dict[str, Any]:
    """machine.json; UnfitError where it is none."""
    document = parse(content)
    if not isinstance(document, dict):
        raise UnfitError("not a JSON object")
    return document


def parse(content: bytes) -> Any:
    """Strict JSON: UTF-8, and only numbers that are finite; UnfitError otherwise."""
    try:
        return history.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise UnfitError(f"is not JSON: {clean(str(error), 200)}") from None


def entries_in(histories: Iterable[Path]) -> list[Entry]:
    """What histories of this computer hold, as every command reads them."""
    return [entry(run) for path in histories for run in history.read(path).runs]


def machine_host(entries: Iterable[Entry]) -> str | None:
    """The host of a folder's own runs; where they are of several, the one that most are of."""
    counted = Counter(one.host for one in entries if one.own and one.host)
    return min(counted, key=lambda host: (-counted[host], host)) if counted else None


def lines(content: bytes) -> Iterator[tuple[int, bytes]]:
    """The lines that hold something, with their numbers from 1."""
    for number, line in enumerate(content.split(b"\n"), start=1):
        if line.strip():
            yield number, line
