"""What the evidence of a run says, in words: routine and kernel, each with how it is known.

traced, logged and sampled mean that it was seen to run; documented is what a table says should run;
unknown carries its reason. Seen and expected are never mixed in one value.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gemmgrid.report.read.fields import Fields, clean

MARKS = {
    "traced": "the call was intercepted while it ran",
    "logged": "the library's own log or profiler named it",
    "sampled": "the processor was interrupted at random and found there",
    "documented": "a document says so; it was not seen",
    "unknown": "could not be found out",
}
"""How a routine or kernel is known, the strongest first."""

SEEN = ("traced", "logged", "sampled")


@dataclass(frozen=True)
class Finding:
    """One routine or kernel. share: part of the working time (0 … 1), from so many samples in all;
    library: a file's path or a library's name."""

    name: str
    mark: str
    share: float | None = None
    samples: int | None = None
    library: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Hidden:
    """Work that the expression does not show: copies, upcasts, one call per slice."""

    what: str
    count: int | None
    bytes: int | None
    explanation: str | None


@dataclass
class Evidence:
    """A run's evidence. `status` is None where none was taken.

    reason: why it failed, or why it is incomplete; problems: what could not be looked at, and why.
    """

    status: str | None = None
    reason: str | None = None
    routines: list[Finding] = field(default_factory=list)
    kernels: list[Finding] = field(default_factory=list)
    hidden: list[Hidden] = field(default_factory=list)
    no_blas: str | None = None
    inconsistent: str | None = None
    problems: dict[str, str] = field(default_factory=dict)

    @property
    def routine(self) -> tuple[str | None, str | None]:
        """The routine's name and mark, for a table's cell."""
        if not self.routines and self.no_blas:
            return self.no_blas, "sampled"
        return strongest(self.routines, self.status)

    @property
    def kernel(self) -> tuple[str | None, str | None]:
        return strongest(self.kernels, self.status)


def read(fields: Fields) -> Evidence:
    """The evidence in a run."""
    if not fields.mapping("evidence"):
        return Evidence()
    routines = list(_findings(fields, "evidence.routines", ("symbol", "routine")))
    kernels = list(_findings(fields, "evidence.kernels", ("name", "core")))
    hidden = [
        Hidden(
            part.text("what") or "hidden work",
            part.integer("count"),
            part.integer("bytes"),
            part.text("explanation"),
        )
        for part in fields.parts("evidence.hidden")
    ]
    return Evidence(
        status=fields.text("evidence.status"),
        reason=fields.text("evidence.reason"),
        routines=routines,
        kernels=kernels,
        hidden=hidden,
        no_blas=_no_blas(fields),
        inconsistent=fields.text("evidence.inconsistent"),
        problems={
            clean(str(what)): clean(why)
            for what, why in fields.mapping("evidence.problems").items()
            if isinstance(why, str)
        },
    )


def strongest(findings: list[Finding], status: str | None) -> tuple[str | None, str | None]:
    """The names known best, joined, and their mark; (None, None) where no evidence was taken."""
    for mark in MARKS:
        alike = [finding for finding in findings if finding.mark == mark]
        if alike:
            names = dict.fromkeys(finding.name for finding in alike if finding.name)
            return (" + ".join(names) or None, mark)
    return None, "unknown" if status else None


def _findings(fields: Fields, path: str, names: Iterable[str]) -> Iterable[Finding]:
    for part in fields.parts(path):
        mark = part.text("evidence") or "unknown"
        texts = [text for text in map(part.text, names) if text]
        yield Finding(
            name=texts[0] if texts else "",
            mark=mark if mark in MARKS else "unknown",
            share=part.number("share"),
            samples=part.integer("samples"),
            library=part.text("library"),
            reason=part.text("reason"),
        )


def _no_blas(fields: Fields) -> str | None:
    """ "no BLAS", with the function that did the work and how many slots were watched."""
    if not fields.mapping("evidence.no_blas"):
        return None
    function = fields.text("evidence.no_blas.function")
    watched = fields.integer("evidence.no_blas.slots_watched")
    parts = [f"{function} did the work" if function else "", f"{watched} slots watched"]
    told = ", ".join(part for part in parts if part and not part.startswith("None"))
    return f"no BLAS ({told})" if told else "no BLAS"
