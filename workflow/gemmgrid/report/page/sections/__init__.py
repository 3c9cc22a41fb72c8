"""The page's sections, in the order they are shown.

A section is a module here and a template of the same name: the module has a TITLE and
`build(view) -> dict`, and the template gets that dictionary. A new section is two such files and a
line below.
"""

from __future__ import annotations

from types import ModuleType

from gemmgrid.report.page.sections import (
    accuracy,
    backends,
    changes,
    dispatch,
    exercise,
    foreign_runs,
    lesson,
    machines,
    problems,
    reading,
    sweep,
    table,
    threads,
    unmeasured,
    versus,
)

SECTIONS: tuple[ModuleType, ...] = (
    exercise,
    sweep,
    threads,
    machines,
    foreign_runs,
    versus,
    backends,
    changes,
    dispatch,
    lesson,
    accuracy,
    table,
    unmeasured,
    problems,
    reading,
)
