"""One adapter a library: a new one is a new file here, and nothing else moves."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from gemmgrid.measure.adapters.base import Adapter

NAMES = tuple(
    sorted(
        path.stem
        for path in Path(__file__).parent.glob("*.py")
        if path.stem != "base" and not path.stem.startswith("_")
    )
)
"""The adapters, by the names of their files; files with a leading underscore are helpers."""


def load(name: str) -> type[Adapter]:
    """The adapter class of that name; imports no numeric library but NumPy.

    A name with a dot is the path of a module elsewhere (`mypackage.mylibrary`). ValueError for a
    name that is no adapter, or a module without exactly one.
    """
    if "." not in name and name not in NAMES:
        raise ValueError(f"adapter {name!r} is none of {', '.join(NAMES)}")
    module = import_module(name if "." in name else f"{__name__}.{name}")
    found = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Adapter)
        and value.__module__ == module.__name__
    ]
    if len(found) != 1:
        raise ValueError(f"module {module.__name__} defines {len(found)} adapters, not one")
    return found[0]
