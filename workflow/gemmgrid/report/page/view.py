"""What a section of the page may look at, and the few words that several of them need."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from gemmgrid.report.draw.palette import Palette
from gemmgrid.report.read.collect import Collection
from gemmgrid.report.read.coverage import Coverage, coverage
from gemmgrid.report.read.rows import Row


@dataclass
class View:
    """The collection, and what is derived from it once for the whole page."""

    collection: Collection
    made_at: str
    _figures: int = field(default=0, init=False)

    @cached_property
    def cells(self) -> list[Row]:
        return self.collection.cells

    @cached_property
    def measured(self) -> list[Row]:
        """The cells whose latest run is ok: the only ones that have a rate."""
        return [row for row in self.cells if row.measured]

    @cached_property
    def coverage(self) -> Coverage:
        return coverage(self.collection)

    @cached_property
    def palette(self) -> Palette:
        return Palette(self.measured)

    @cached_property
    def several_machines(self) -> bool:
        return len({row["machine"] for row in self.cells} | set(self.collection.machines)) > 1

    def figure_id(self) -> str:
        """A fresh identifier for a drawing."""
        self._figures += 1
        return f"f{self._figures}"


def listed(words: Iterable[object], last: str = "and") -> str:
    """ "a, b and c"."""
    texts = [str(word) for word in words]
    if len(texts) < 2:
        return "".join(texts)
    return f"{', '.join(texts[:-1])} {last} {texts[-1]}"
