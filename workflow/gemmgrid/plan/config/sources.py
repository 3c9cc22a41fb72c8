"""Where a value of the merged config came from: which file, which line, or `--config`.

Snakemake hands over one merged dictionary. The files are read again only when something is wrong,
so that a good config costs nothing here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml

from gemmgrid.plan.config.errors import ConfigError

Key = tuple[str | int, ...]
"""A place in a document: ("grid", 0, "dtypes", 1)."""


class Sources:
    """The config files in the order of merging, the last one winning."""

    def __init__(
        self, files: Iterable[Path], root: Path, beyond: str = "the command line (--config)"
    ):
        self.files = [Path(file) for file in files]
        self.root = root
        self.beyond = beyond

    def where(self, key: Key, value: Any = None) -> str:
        """The place as a message names it: `config/config.yaml, line 12, grid[0].dtypes[1]`.

        `value` is what the merged config holds there: a file that says something else was
        overridden, so the search goes on behind it.
        """
        for file in reversed(self.files):
            line = _line(file, key, value)
            if line is not None:
                return f"{self._shown(file)}, line {line}, {dotted(key)}"
        if len(self.files) == 1 and not self.beyond:
            return f"{self._shown(self.files[0])}, {dotted(key)}"
        return f"{self.beyond or 'the config'}, {dotted(key)}"

    def _shown(self, file: Path) -> str:
        try:
            return str(file.resolve().relative_to(self.root.resolve()))
        except ValueError:
            return str(file)


class Problems:
    """Collects what is wrong, so that one run shows all of it."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self.texts: list[str] = []

    def add(self, key: Key, text: str, value: Any = None) -> None:
        """Note a problem at a place; `value` is what stands there."""
        self.texts.append(f"{self.sources.where(key, value)}: {text}")

    def check(self) -> None:
        """Raise ConfigError if anything was noted."""
        if self.texts:
            raise ConfigError(list(dict.fromkeys(self.texts)))


def dotted(key: Key) -> str:
    """`("grid", 0, "dtypes")` as people write it: `grid[0].dtypes`."""
    text = ""
    for part in key:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text or "the whole file"


def read_yaml(file: Path, sources: Sources) -> Any:
    """The content of a YAML file; ConfigError where it is missing or not YAML."""
    try:
        return yaml.load(file.read_text(encoding="utf-8"), Loader=_LOADER)
    except FileNotFoundError:
        raise ConfigError([f"{file} is missing: restore it from the project"]) from None
    except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        raise ConfigError([f"{sources.where(())} is not readable YAML: {error}"]) from None


_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _line(file: Path, key: Key, value: Any) -> int | None:
    """The line of `key` in the file, counted from 1; None if the file does not hold it."""
    try:
        with file.open(encoding="utf-8") as stream:
            node = yaml.compose(stream, Loader=yaml.SafeLoader)
    except (OSError, yaml.YAMLError, UnicodeDecodeError):
        return None
    line = 1
    for part in key:
        step = _step(node, part)
        if step is None:
            return None
        line, node = step
    return line if _same(node, value) else None


def _step(node: yaml.Node | None, part: str | int) -> tuple[int, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        for name, child in node.value:
            if name.value == str(part):
                return name.start_mark.line + 1, child
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        child = node.value[part]
        return child.start_mark.line + 1, child
    return None


def _same(node: yaml.Node | None, value: Any) -> bool:
    """Whether the file says this value; mappings may differ, because merging mixes them."""
    if value is None or isinstance(value, dict) or node is None:
        return True
    written = yaml.safe_load(yaml.serialize(node))
    return bool(typed(written) == value) or str(written) == str(value)


def typed(value: Any) -> Any:
    """The value with numbers and booleans that came as text made into numbers and booleans.

    `--config` gives everything inside brackets as text, and YAML reads 1e-2 (no dot) as text.
    """
    if isinstance(value, dict):
        return {key: typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [typed(item) for item in value]
    if isinstance(value, str):
        if _INTEGER.fullmatch(value):
            return int(value)
        if _FLOAT.fullmatch(value):
            return float(value)
        return _WORDS.get(value, value)
    return value


_INTEGER = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_WORDS = {"true": True, "True": True, "false": False, "False": False}


def as_keys(path: Sequence[Any]) -> Key:
    """A jsonschema path (a deque of keys and indices) as a Key."""
    return tuple(part if isinstance(part, int) else str(part) for part in path)
