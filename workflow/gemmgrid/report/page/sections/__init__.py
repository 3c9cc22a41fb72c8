"""The page's sections, in the order they are shown.

A section is a module here and a template of the same name: the module has a TITLE and
`build(view) -> dict`, and the template gets that dictionary. A new section is two such files and a
word below.
"""

from __future__ import annotations

from importlib import import_module

NAMES = (
    *(
        "answer",
        "exercise",
        "sweep",
        "threads",
        "machines",
        "foreign_runs",
        "versus",
        "backends",
        "changes",
    ),
    *("dispatch", "lesson", "accuracy", "table", "unmeasured", "problems", "reading"),
)
SECTIONS = {name: import_module(f"{__name__}.{name}") for name in NAMES}
