"""The grid multiplied out: for each machine and backend every cell, planned or left out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import blake2b
from typing import Any, ClassVar

from gemmgrid.plan.config.errors import ConfigError
from gemmgrid.plan.config.machines import Target
from gemmgrid.plan.config.registry import Backend, resolve
from gemmgrid.plan.config.study import Study
from gemmgrid.plan.grid.availability import Availability
from gemmgrid.plan.grid.blocks import Block
from gemmgrid.records.cell import Cell


@dataclass
class PlannedCell:
    """A cell to measure on a machine with a backend; `order` is its turn in the shuffled grid."""

    machine: str
    backend: str
    cell: Cell
    spec: str
    """JSON with sorted keys of everything whose change must measure the cell again."""
    order: int = 0
    status: ClassVar[str] = "planned"
    reason: ClassVar[None] = None

    @property
    def name(self) -> str:
        return self.cell.name

    @cached_property
    def path(self) -> str:
        return path_of(self.machine, self.backend, self.cell)

    @property
    def document(self) -> dict[str, Any]:
        """What the text of the spec says."""
        return dict(json.loads(self.spec))


@dataclass(frozen=True)
class SkippedCell:
    """A cell that stays in the tables with a reason: status `excluded` or `unsupported`."""

    machine: str
    backend: str
    cell: Cell
    status: str
    reason: str
    order: None = None

    @property
    def name(self) -> str:
        return self.cell.name

    @property
    def path(self) -> str:
        return path_of(self.machine, self.backend, self.cell)


def path_of(machine: str, backend: str, cell: Cell) -> str:
    """The file of a cell's history, relative to the folder of the run."""
    return f"results/{machine}/{backend}/{cell.name}.jsonl"


Entry = PlannedCell | SkippedCell


def expand(
    study: Study,
    targets: list[Target],
    registry: Mapping[str, Backend],
    availability: Availability,
) -> tuple[list[PlannedCell], list[SkippedCell]]:
    """All cells of the study on these machines, in the order of the config, each once.

    ConfigError where threads have no meaning on a machine.
    """
    entries: dict[tuple[str, str, str], Entry] = {}
    cells = _SharedCells()
    for target in targets:
        for block in study.blocks:
            for backend, named in chosen_backends(block, study, target, registry):
                problem = availability.problem(backend, target)
                if problem and not named:
                    continue
                judge = _Judge(study, target, backend, problem)
                for cell, text in cells.of(block, _threads(block, backend, target)):
                    key = (target.name, backend.name, cell.name)
                    if key not in entries and (entry := judge(cell, text)):
                        entries[key] = entry
    planned = [entry for entry in entries.values() if isinstance(entry, PlannedCell)]
    skipped = [entry for entry in entries.values() if isinstance(entry, SkippedCell)]
    _shuffle(planned, study.seed)
    return planned, skipped


def chosen_backends(
    block: Block, study: Study, target: Target, registry: Mapping[str, Backend]
) -> list[tuple[Backend, bool]]:
    """The block's backends on this machine, each with whether somebody named it.

    A block's `auto` takes over the names that the study is narrowed to; names stay only where the
    study's narrowing and the machine's own list have them too.
    """
    chosen = dict(resolve(block.backends, registry))
    for names in (study.narrowed, target.backends):
        if names is not None:
            allowed = dict(resolve(list(names), registry))
            chosen = {
                name: named or allowed[name] for name, named in chosen.items() if name in allowed
            }
    return [(registry[name], named) for name, named in chosen.items()]


def _threads(block: Block, backend: Backend, target: Target) -> tuple[int, ...]:
    # Host threads mean nothing to a product on a GPU: one cell instead of one per thread count.
    if backend.on_gpu:
        return (1,)
    try:
        return tuple(target.thread_counts(block.threads))
    except ValueError as error:
        raise ConfigError([str(error)]) from None


class _SharedCells:
    """The cells of blocks with their JSON: backends share them, and their names are made once."""

    def __init__(self) -> None:
        self._blocks: dict[tuple[int, tuple[int, ...]], list[tuple[Cell, str]]] = {}

    def of(self, block: Block, threads: tuple[int, ...]) -> list[tuple[Cell, str]]:
        key = (id(block), threads)
        if key not in self._blocks:
            self._blocks[key] = [
                (cell, json.dumps(cell.to_json(), sort_keys=True, separators=(",", ":")))
                for cell in block.cells(threads)
            ]
        return self._blocks[key]


class _Judge:
    """Makes the entry of a cell of one backend on one machine, with what they share done once."""

    def __init__(self, study: Study, target: Target, backend: Backend, problem: str | None) -> None:
        self.machine = target.name
        self.backend = backend
        self.problem = problem
        place = {
            "machine": target.name,
            "platform": target.platform,
            "backend": backend.name,
            "adapter": backend.adapter,
            "device": backend.device,
        }
        self.exclusions = [one for one in study.exclusions if one.selector.matches_place(place)]
        self.select = study.select
        self.selected = study.select is None or study.select.matches_place(place)
        self.before, self.after = _spec_around_cell(backend)

    def __call__(self, cell: Cell, text: str) -> Entry | None:
        if not self.selected or (self.select and not self.select.matches_cell(cell)):
            return None
        for exclusion in self.exclusions:
            if exclusion.selector.matches_cell(cell):
                return self._skipped(cell, "excluded", exclusion.reason)
        problem = self.problem or self.backend.lacks(cell.dtype)
        if problem:
            return self._skipped(cell, "unsupported", problem)
        spec = f"{self.before}{text}{self.after}"
        return PlannedCell(self.machine, self.backend.name, cell, spec)

    def _skipped(self, cell: Cell, status: str, reason: str) -> SkippedCell:
        return SkippedCell(self.machine, self.backend.name, cell, status, reason)


def _spec_around_cell(backend: Backend) -> tuple[str, str]:
    """The text of a backend's specs before and after the cell's own JSON."""
    mark = "\0"
    document: dict[str, Any] = {
        "adapter": backend.adapter,
        "backend": backend.name,
        "blas": backend.blas,
        "cell": mark,
        "device": backend.device,
        "options": dict(backend.options),
        "variables": dict(backend.variables),
    }
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    before, _, after = text.partition(json.dumps(mark))
    return before, after


def _shuffle(planned: list[PlannedCell], seed: int) -> None:
    """Give each cell its turn: products one after another, and of each its cells, both by a hash.

    So what is likely to be compared is measured close together, and the turns of two cells do not
    change when others come or go, on any Python version.
    """
    salt = str(seed).encode()

    @cache
    def hashed(text: str) -> bytes:
        return blake2b(salt + text.encode(), digest_size=8).digest()

    def turn(planned: PlannedCell) -> tuple[bytes, bytes, str]:
        return hashed(planned.cell.product), hashed(planned.path), planned.path

    for order, cell in enumerate(sorted(planned, key=turn)):
        cell.order = order
