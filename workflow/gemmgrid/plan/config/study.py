"""A study: what the merged config says, checked, completed and made into objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from gemmgrid.plan.config.errors import choose
from gemmgrid.plan.config.machines import Machine
from gemmgrid.plan.config.registry import Backend, as_list, resolve
from gemmgrid.plan.config.sources import Key, Problems, Sources, typed
from gemmgrid.plan.config.validation import fill, schema, validate
from gemmgrid.plan.grid.blocks import Block, read_block
from gemmgrid.plan.grid.selection import Selector, parse_selector
from gemmgrid.records.names import name_problem

_TEXTS = ("study", "machine", "machines", "backends", "select")
"""Keys whose values are text; what looks like a number arrives as one, and changed: 0012 as 12."""


@dataclass(frozen=True)
class Exclusion:
    """Cells that the study leaves out, and why."""

    selector: Selector
    reason: str


@dataclass(frozen=True)
class Study:
    """A config, ready to be planned. `settings` is what a job document carries as such."""

    name: str
    machine: str
    machines: tuple[str, ...]
    seed: int
    blocks: tuple[Block, ...]
    narrowed: tuple[str, ...] | None
    select: Selector | None
    exclusions: tuple[Exclusion, ...]
    settings: dict[str, Any]


def read_study(
    config: Mapping[str, Any],
    root: Path,
    files: Iterable[Path],
    registry: Mapping[str, Backend],
    machines: Mapping[str, Machine],
) -> Study:
    """The study of Snakemake's merged config; ConfigError with everything that is wrong in it.

    `files` are the config files that were merged, so that a message can name the right one.
    """
    document = _plain(config)
    problems = Problems(Sources(files, root))
    for key in _TEXTS:
        written = document.get(key)
        for value in written if isinstance(written, list) else [written]:
            if isinstance(value, (bool, int, float, date)):
                problems.add((key,), _unquoted(key, value), document[key])
    problems.check()
    validate(document, "config", problems)
    problems.check()
    document = fill(document, schema("config"))

    blocks = [
        read_block(entry, ("grid", index), problems) for index, entry in enumerate(document["grid"])
    ]
    for block in filter(None, blocks):
        _check_backends(block.backends, (*block.key, "backends"), registry, problems)
    _check_backends(document["backends"], ("backends",), registry, problems)
    chosen = _machines(document, machines, problems)
    settings = _settings(document, problems)
    select = _selector(document["select"], ("select",), registry, problems)
    exclusions = [
        _exclusion(entry, ("exclude", index), registry, problems)
        for index, entry in enumerate(document["exclude"])
    ]
    problems.check()
    narrowed = as_list(document["backends"])
    return Study(
        name=document["study"],
        machine=document["machine"],
        machines=chosen,
        seed=document["seed"],
        blocks=tuple(block for block in blocks if block),
        narrowed=None if "auto" in narrowed else tuple(narrowed),
        select=select,
        exclusions=tuple(one for one in exclusions if one),
        settings=settings,
    )


def _plain(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config as plain types; outside text keys, numbers that came as text are numbers."""
    document = {str(key): _unwrapped(value) for key, value in config.items() if value is not None}
    # `--config` takes no nested keys: `rounds=5` stands for sampling.rounds.
    for name in ("sampling", "budget"):
        own = [key for key in schema("config")["properties"][name]["properties"] if key in document]
        if own and isinstance(document.setdefault(name, {}), dict):
            document[name] |= {key: document.pop(key) for key in own}
    return {key: value if key in _TEXTS else typed(value) for key, value in document.items()}


def _unquoted(key: str, value: Any) -> str:
    return (
        f"found {value}, which was read as a number or a date and may have been written otherwise "
        f'(0012, 2026_11, 1e5, 1.10). Allowed: text. Quote it: {key}: "…" in a file, '
        f"--config {key}='\"…\"' on the command line."
    )


def _unwrapped(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _unwrapped(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_unwrapped(item) for item in value]
    return value


def _check_backends(
    names: str | list[str], key: Key, registry: Mapping[str, Backend], problems: Problems
) -> None:
    try:
        if not resolve(names, registry):
            problems.add(key, f"found {names!r}. Allowed: 'auto', or names of backends.", names)
    except ValueError as error:
        problems.add(key, str(error), names)


def _machines(
    document: Mapping[str, Any], known: Mapping[str, Machine], problems: Problems
) -> tuple[str, ...]:
    """The machines of the study behind SLURM; empty when it is for this machine."""
    machine = document["machine"]
    names = as_list(document["machines"])
    if machine != "auto" and (wrong := name_problem(machine)):
        problems.add(("machine",), wrong, machine)
    for name in names:
        if name not in known:
            problems.add(
                ("machines",),
                name_problem(name)
                or f"there is no machine {name!r} in config/machines.yaml. "
                + (choose(name, known) if known else "It has no machine yet: add one there."),
                document["machines"],
            )
    if names and machine != "auto":
        if machine not in names:
            problems.add(("machine",), f"found {machine!r}. {choose(machine, names)}", machine)
        names = [machine]
    return tuple(dict.fromkeys(names))


def _settings(document: Mapping[str, Any], problems: Problems) -> dict[str, Any]:
    sampling, budget = document["sampling"], document["budget"]
    if sampling["min_samples"] > sampling["max_samples"]:
        problems.add(
            ("sampling", "min_samples"),
            f"found {sampling['min_samples']}. Allowed: at most max_samples, "
            f"{sampling['max_samples']}.",
            sampling["min_samples"],
        )
    return {
        **sampling,
        # Every round starts one invocation or more.
        "rounds": min(sampling["rounds"], sampling["invocations"]),
        "budget_s": budget["cell_s"],
        "memory_fraction": budget["memory_fraction"],
        "evidence": document["evidence"],
    }


def _selector(
    written: Any, key: Key, registry: Mapping[str, Backend], problems: Problems
) -> Selector | None:
    if not written:
        return None
    try:
        return parse_selector(written, registry)
    except ValueError as error:
        problems.add(key, str(error), written)
        return None


def _exclusion(
    entry: Mapping[str, Any], key: Key, registry: Mapping[str, Backend], problems: Problems
) -> Exclusion | None:
    conditions = {name: value for name, value in entry.items() if name != "reason"}
    selector = _selector(conditions, key, registry, problems)
    return Exclusion(selector, entry["reason"]) if selector else None
