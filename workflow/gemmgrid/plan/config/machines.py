"""Where cells can run: this machine, or machine types behind SLURM from config/machines.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gemmgrid.plan import hardware
from gemmgrid.plan.config.registry import Backend, as_list, resolve
from gemmgrid.plan.config.sources import Problems, Sources, read_yaml
from gemmgrid.plan.config.validation import fill, schema, validate
from gemmgrid.records.names import name_problem
from gemmgrid.system import cpus
from gemmgrid.system.project import find

FILE = Path("config/machines.yaml")


@dataclass(frozen=True)
class Machine:
    """One machine type of config/machines.yaml: what SLURM is asked for, and what it promises."""

    name: str
    partition: str | None
    constraint: str | None
    gres: str | None
    account: str | None
    qos: str | None
    cpus: int | None
    cores: int | None
    memory_mb: int | None
    runtime_min: int | None
    cells_per_allocation: int | None
    exclusive: bool
    platform: str
    backends: tuple[str, ...] | None
    threads: tuple[int | str, ...] | None

    @property
    def gpu(self) -> bool:
        return self.gres is not None and "gpu" in self.gres.casefold()

    @property
    def promise(self) -> dict[str, Any]:
        """What a node of this machine must be; the job that runs there compares."""
        return {"cpus": self.cpus, "gpu": self.gpu, "platform": self.platform}


@dataclass(frozen=True)
class Target:
    """A machine as the grid sees it: what runs there, and how many threads `all` is."""

    name: str
    platform: str
    cuda: bool
    cpus: int | None
    cores: int | None
    local: bool = True
    backends: tuple[str, ...] | None = None
    threads: tuple[int | str, ...] | None = None

    @property
    def apple_gpu(self) -> bool:
        return self.platform == "macos-arm64"

    def thread_counts(self, wanted: tuple[int | str, ...]) -> list[int]:
        """The thread counts that a block's words mean here, without repetitions.

        `all` is every CPU that may be used, `physical` every core, `doubling` 1, 2, 4 … up to
        `all`. ValueError where this machine's CPUs are not known.
        """
        counts: list[int] = []
        for one in self.threads or wanted:
            counts += [one] if isinstance(one, int) else self._meant(one)
        return list(dict.fromkeys(counts))

    def _meant(self, word: str) -> list[int]:
        every = self.cpus
        if every is None:
            raise ValueError(
                f"machine {self.name!r} in {FILE} says no 'cpus', so 'threads: {word}' has no "
                f"meaning there. Add 'cpus: <number>' to it, or write threads as numbers."
            )
        if word == "all":
            return [every]
        if word == "physical":
            return [min(self.cores or every, every)]
        return [*(1 << power for power in range((every - 1).bit_length())), every]


def local_target(name: str = "auto", entry: Machine | None = None) -> Target:
    """The machine this runs on, under the name given or, for `auto`, under its own.

    entry   what config/machines.yaml says under that name: inside an allocation of that machine
            the same cells are planned as through SLURM
    """
    return Target(
        name=hardware.machine_name() if name == "auto" else name,
        platform=hardware.platform_name(),
        cuda=hardware.has_cuda(),
        cpus=cpus.usable(),
        cores=cpus.usable_cores(),
        backends=entry.backends if entry else None,
        threads=entry.threads if entry else None,
    )


def remote_target(machine: Machine) -> Target:
    """A machine behind SLURM, as its entry promises it."""
    return Target(
        name=machine.name,
        platform=machine.platform,
        cuda=machine.gpu,
        cpus=machine.cpus,
        cores=machine.cores,
        local=False,
        backends=machine.backends,
        threads=machine.threads,
    )


def load_machines(root: Path) -> dict[str, Machine]:
    """Every machine of `config/machines.yaml` under `root`; empty without the file; ConfigError."""
    path = find(root, FILE)
    if not path.exists():
        return {}
    sources = Sources([path], root, beyond="")
    entries = read_yaml(path, sources) or {}
    problems = Problems(sources)
    validate(entries, "machines", problems)
    problems.check()
    for name in entries:
        wrong = name_problem(name)
        if wrong:
            problems.add((str(name),), wrong)
    problems.check()
    return {name: _machine(name, entry or {}) for name, entry in entries.items()}


def check_backends(
    machines: Mapping[str, Machine], registry: Mapping[str, Backend], root: Path
) -> None:
    """ConfigError where a machine's `backends` names one that the registry does not have."""
    problems = Problems(Sources([find(root, FILE)], root, beyond=""))
    for machine in machines.values():
        try:
            resolve(list(machine.backends or ["auto"]), registry)
        except ValueError as error:
            problems.add((machine.name, "backends"), str(error))
    problems.check()


def _machine(name: str, entry: Mapping[str, Any]) -> Machine:
    full = fill(dict(entry), schema("machines")["additionalProperties"])
    backends, threads = full.get("backends"), full.get("threads")
    if threads is not None and not isinstance(threads, list):
        threads = [threads]
    plain = {
        key: full.get(key)
        for key in (
            *("partition", "constraint", "gres", "account", "qos"),
            *("cpus", "cores", "memory_mb", "runtime_min", "cells_per_allocation"),
        )
    }
    return Machine(
        name=name,
        exclusive=full["exclusive"],
        platform=full["platform"],
        backends=None if backends is None else tuple(as_list(backends)),
        threads=None if threads is None else tuple(threads),
        **plain,
    )
