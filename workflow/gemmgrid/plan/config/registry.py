"""The registry of backends: what config/backends.yaml says, checked and made into objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gemmgrid.plan.config.errors import choose
from gemmgrid.plan.config.sources import Problems, Sources, read_yaml
from gemmgrid.plan.config.validation import fill, schema, validate
from gemmgrid.plan.grid.selection import is_pattern, matching_names
from gemmgrid.records.names import name_problem
from gemmgrid.system.project import find

FILE = Path("config/backends.yaml")


@dataclass(frozen=True)
class Backend:
    """An adapter with the environment and options it runs with: one entry of the registry."""

    name: str
    adapter: str
    device: str
    environment: str
    blas: str | None
    platforms: tuple[str, ...]
    venv_platforms: tuple[str, ...]
    conda_macos: str | None
    dtypes: frozenset[str]
    options: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    python: str | None = None
    modules: tuple[str, ...] = ()
    reason: Mapping[str, str] = field(default_factory=dict)
    variant_of: str | None = None
    """The entry that this one is a variant of."""

    @property
    def on_gpu(self) -> bool:
        """Whether the product runs on a GPU, where host threads have no meaning."""
        return self.device != "cpu"

    @property
    def of_site(self) -> bool:
        """Whether it runs on a stack of the site's own, for which no environment is made."""
        return bool(self.python or self.modules)

    def lacks(self, dtype: str) -> str | None:
        """Why the backend cannot do this dtype, or None."""
        if dtype in self.dtypes:
            return None
        return self.reason.get(dtype) or f"{self.name} has no {dtype}"


def load_registry(root: Path, file: Path | None = None) -> dict[str, Backend]:
    """Every backend of config/backends.yaml, in its order: of `root`, else ours; ConfigError."""
    path = find(root, FILE) if file is None else file
    sources = Sources([path], root, beyond="")
    entries = read_yaml(path, sources)
    problems = Problems(sources)
    validate(entries, "backends", problems)
    problems.check()
    for name, entry in entries.items():
        wrong = name_problem(name)
        if wrong:
            problems.add((str(name),), wrong)
        environment = entry.get("environment")
        wrong = None if environment is None else name_problem(environment)
        if wrong:
            problems.add((str(name), "environment"), wrong, environment)
    problems.check()
    backends = {
        full: _backend(full, variant, None if full == name else name)
        for name, entry in entries.items()
        for full, variant in _with_variants(name, entry)
    }
    for name in backends:
        wrong = name_problem(name)
        if wrong:
            problems.add((name.partition(".")[0],), wrong)
    problems.check()
    return backends


def resolve(names: str | list[str], registry: Mapping[str, Backend]) -> list[tuple[str, bool]]:
    """The backends that a config's `backends` means, each with whether it was named itself.

    `auto` and patterns (`torch-*`) mean those that can run here, so they do not count as named. A
    variant is meant only where its name, or a pattern with a dot (`torch-cpu.*`), says so.
    ValueError says which name the registry does not have.
    """
    wanted = as_list(names)
    chosen: dict[str, bool] = {}
    for name in wanted:
        if name == "auto":
            matches = [one for one, entry in registry.items() if not entry.variant_of]
        elif is_pattern(name):
            found = matching_names(name, registry)
            matches = [one for one in found if "." in name or not registry[one].variant_of]
        else:
            matches = [name] if name in registry else []
        if not matches:
            wrong = None if is_pattern(name) else name_problem(name)
            raise ValueError(wrong or f"there is no backend {name!r}. {choose(name, registry)}")
        for match in matches:
            chosen[match] = chosen.get(match, False) or match == name
    return list(chosen.items())


def as_list(names: str | list[str]) -> list[str]:
    """Names given as a list or as one text with commas between them."""
    if isinstance(names, str):
        return [part.strip() for part in names.split(",") if part.strip()]
    return [str(name) for name in names]


def _with_variants(name: str, entry: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The entry itself, then each of its variants: the same with other variables and options."""
    yield name, entry
    for variant, changed in entry.get("variants", {}).items():
        merged = {
            key: {**entry.get(key, {}), **changed.get(key, {})} for key in ("variables", "options")
        }
        yield (
            f"{name}.{variant}",
            {**entry, "environment": entry.get("environment", name), **merged},
        )


def _backend(name: str, entry: dict[str, Any], variant_of: str | None) -> Backend:
    full = fill(entry, schema("backends")["additionalProperties"])
    return Backend(
        name=name,
        adapter=full["adapter"],
        device=full["device"],
        environment=full.get("environment", name),
        blas=full["blas"],
        platforms=tuple(full["platforms"]),
        venv_platforms=tuple(full.get("venv_platforms", full["platforms"])),
        conda_macos=full.get("conda_macos"),
        dtypes=frozenset(full["dtypes"]),
        options=full["options"],
        variables={key: str(value) for key, value in full["variables"].items()},
        python=full.get("python"),
        modules=tuple(full["modules"]),
        reason=full["reason"],
        variant_of=variant_of,
    )
