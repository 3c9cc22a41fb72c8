"""From a config to a plan: which cells are measured where, and which are left out and why.

A pure function of the config, the files under config/ and envs/, and the machine. Snakemake calls
it at every parse, so it starts no process (except for DEPLOY=none) and imports nothing numeric.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from gemmgrid.plan.config.errors import ConfigError
from gemmgrid.plan.config.machines import (
    Machine,
    Target,
    check_backends,
    load_machines,
    local_target,
    remote_target,
)
from gemmgrid.plan.config.registry import Backend, load_registry
from gemmgrid.plan.config.study import Study, read_study
from gemmgrid.plan.grid.availability import Availability
from gemmgrid.plan.grid.expand import PlannedCell, SkippedCell, expand
from gemmgrid.records import text
from gemmgrid.records.context import digest
from gemmgrid.records.files import write_atomically
from gemmgrid.records.run import now

PLAN_SCHEMA = 1


@dataclass
class Plan:
    """A study made concrete. `backends` and `machines` hold those that planned cells use.

    `machine` is this machine's name, or the names of several behind SLURM joined by `+`.
    `machines` is empty when everything is measured here. `promises` says by machine what the entry
    of config/machines.yaml promises, where there is one.
    """

    study: str
    machine: str
    seed: int
    settings: dict[str, Any]
    deploy: str
    backends: dict[str, Backend]
    machines: dict[str, Machine]
    cells: list[PlannedCell]
    skipped: list[SkippedCell]
    registry: dict[str, Backend]
    promises: dict[str, dict[str, Any]] = field(default_factory=dict)

    @cached_property
    def digest(self) -> str:
        """Hash of what is planned and left out; the order in the config does not matter."""
        planned = sorted((cell.path, cell.spec) for cell in self.cells)
        skipped = sorted(
            (one.machine, one.backend, one.name, one.status, one.reason) for one in self.skipped
        )
        return digest([planned, skipped], 16)

    def whole_digest(self, configfiles: Iterable[str]) -> str:
        """Hash of everything that the plan's files say: also settings and how cells are named."""
        said = [PLAN_SCHEMA, self.digest, self.study, self.deploy, self.seed, self.settings]
        places = {
            name: [backend.environment, backend.python, backend.modules]
            for name, backend in self.backends.items()
        }
        said += [self.promises, list(self.machines), list(configfiles), places]
        return digest(said, 16)

    def write(self, path: Path, configfiles: Iterable[str] = ()) -> None:
        """Write plan.jsonl, atomically: a header, then a line for each cell.

        configfiles   those of the command line: a command that tries a cell again names them
        """
        header = {
            "schema": PLAN_SCHEMA,
            "kind": "plan",
            "study": self.study,
            "machine": self.machine,
            "deploy": self.deploy,
            "machines": list(self.machines),
            "seed": self.seed,
            "settings": self.settings,
            "configfiles": list(configfiles),
            "created_at": now(),
        }
        entries = (self._line(entry) for part in (self.cells, self.skipped) for entry in part)
        lines = (json.dumps(line, separators=(",", ":")) for line in (header, *entries))
        write_atomically(path, "".join(f"{line}\n" for line in lines).encode())

    def _line(self, entry: PlannedCell | SkippedCell) -> dict[str, Any]:
        backend = self.registry[entry.backend]
        return {
            "machine": entry.machine,
            "backend": entry.backend,
            "adapter": backend.adapter,
            "device": backend.device,
            "cell": entry.cell.to_json(),
            "name": entry.name,
            "path": entry.path,
            "status": entry.status,
            "reason": entry.reason,
            "order": entry.order,
        }


def load(
    config: Mapping[str, Any],
    root: Path,
    deploy: str,
    files: Iterable[Path] = (),
    modules: bool = False,
) -> Plan:
    """The plan of a config, as Snakemake merged it from `files` and `--config`.

    `root` is the project's folder with config/ and envs/; `deploy` is conda, venv or none;
    `modules` whether environment modules are loaded (--use-envmodules).
    ConfigError says in full what is wrong, or why no cell is left.
    """
    registry = load_registry(root)
    availability = Availability(deploy, root, registry.values(), modules)
    known = load_machines(root)
    check_backends(known, registry, root)
    study = read_study(config, root, files, registry, known)
    targets = [remote_target(known[name]) for name in study.machines]
    targets = targets or [local_target(study.machine, known.get(study.machine))]
    planned, skipped = expand(study, targets, registry, availability)
    if not planned:
        raise ConfigError([_nothing_left(study, targets, skipped, availability, registry)])
    used = {cell.backend for cell in planned}
    return Plan(
        study=study.name,
        machine="+".join(target.name for target in targets),
        seed=study.seed,
        settings=study.settings,
        deploy=deploy,
        backends={name: backend for name, backend in registry.items() if name in used},
        machines={name: known[name] for name in study.machines},
        cells=planned,
        skipped=skipped,
        registry=registry,
        promises={one.name: known[one.name].promise for one in targets if one.name in known},
    )


def _nothing_left(
    study: Study,
    targets: list[Target],
    skipped: list[SkippedCell],
    availability: Availability,
    registry: Mapping[str, Backend],
) -> str:
    """Why a valid config leaves nothing to measure, and what would change that."""
    place = ", ".join(f"{target.name} ({target.platform})" for target in targets)
    lines = [
        f"study {study.name!r} leaves no cell to measure on {place} with DEPLOY="
        f"{availability.deploy}:"
    ]
    counts = Counter((one.backend, one.status, one.reason) for one in skipped)
    for (name, status, reason), count in counts.most_common():
        lines.append(f"  - {name}: {text.count('cell', count)} {status}: {reason}")
    if not skipped:
        if study.select:
            lines.append("  - 'select' matches no cell of the grid; widen it or leave it out")
            return "\n".join(lines)
        if study.narrowed:
            lines.append(f"  - 'backends' narrows the grid to {', '.join(study.narrowed)}")
        for target in targets:
            for backend in registry.values():
                if problem := availability.problem(backend, target):
                    lines.append(f"  - {backend.name} cannot run on {target.name}: {problem}")
    return "\n".join(lines)
