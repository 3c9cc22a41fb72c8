"""Where SLURM ran something: node, partition, features, job, and whether the node was shared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from gemmgrid.report.read.fields import Fields

MOST_NAMES = 8
_HELD = {True: "exclusive", False: "shared", None: "exclusive or shared: not known"}


@dataclass(frozen=True)
class Slurm:
    """The facts of one run's job that the report shows; exclusive is None where it is not known."""

    node: str | None = None
    partition: str | None = None
    job_id: str | None = None
    features: tuple[str, ...] = ()
    exclusive: bool | None = None

    @property
    def place(self) -> str:
        """ "node ice1, partition cpu", as far as known."""
        named = (("node", self.node), ("partition", self.partition))
        return ", ".join(f"{word} {name}" for word, name in named if name)

    @property
    def text(self) -> str:
        """Everything in one line."""
        features = f"features {' '.join(self.features)}" if self.features else ""
        job = f"job {self.job_id}" if self.job_id else ""
        return ", ".join(filter(None, (self.place, features, job, _HELD[self.exclusive])))


def read(fields: Fields) -> Slurm | None:
    """A run's SLURM facts; None outside SLURM and in records from before they were kept."""
    if not fields.mapping("slurm"):
        return None
    return Slurm(
        fields.text("slurm.node"),
        fields.text("slurm.partition"),
        fields.text("slurm.job_id"),
        tuple(filter(None, fields.texts("slurm.features"))),
        fields.truth("slurm.exclusive"),
    )


def facts(jobs: Iterable[Slurm | None]) -> dict[str, str]:
    """What the runs of one machine have in common, by label; empty where none ran in SLURM."""
    found = [job for job in jobs if job]
    if not found:
        return {}
    held = Counter(job.exclusive for job in found)
    told = {
        "SLURM node": _names(job.node for job in found),
        "SLURM partition": _names(job.partition for job in found),
        "SLURM features": _names(name for job in found for name in job.features),
        "SLURM job": _names(job.job_id for job in found),
        "node held": ", ".join(
            _HELD[kind] + (f" ({count} of {len(found)} cells)" if len(held) > 1 else "")
            for kind, count in held.most_common()
        ),
    }
    return {label: text for label, text in told.items() if text}


def _names(names: Iterable[str | None]) -> str:
    """The different names in the order met, the rest counted."""
    listed = list(dict.fromkeys(filter(None, names)))
    left = len(listed) - MOST_NAMES
    return ", ".join(listed[:MOST_NAMES]) + (f" and {left} more" if left > 0 else "")
