"""Whether the cluster can do what `config/machines.yaml` asks for, before anything is sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gemmgrid.plan.config.machines import FILE, Machine
from gemmgrid.plan.config.sources import Sources
from gemmgrid.plan.slurm.access import Said, doubts, named, refusals
from gemmgrid.plan.slurm.advice import advice, missing_cpus
from gemmgrid.plan.slurm.fit import demands, matching, meeting, offers
from gemmgrid.plan.slurm.partitions import Partition
from gemmgrid.plan.slurm.refusal import malformed, unmet
from gemmgrid.plan.slurm.site import Site

__all__ = ["Findings", "check", "matching"]


@dataclass(frozen=True)
class Findings:
    """What is wrong (nothing should be sent), and what its reader should know all the same."""

    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def check(machines: Mapping[str, Machine], site: Site, root: Path | None = None) -> Findings:
    """Hold every machine's entry against the cluster.

    Each message says file, machine and key, what was found, what is allowed and what to write;
    with the project's `root` also the line. Where the cluster could not be asked, one note says so.
    """
    findings = Findings()
    if site.problem is not None and machines:
        findings.notes.append(
            f"nothing in {FILE} could be checked against the cluster: {site.problem}"
        )
    for machine in machines.values():
        problems, notes = _entry(machine, site)
        findings.problems.extend(_placed(machine, problems, root))
        findings.notes.extend(_placed(machine, notes, root))
    return findings


def _entry(machine: Machine, site: Site) -> tuple[list[Said], list[Said]]:
    """Problems and notes of one machine's entry."""
    if site.problem is not None:
        return ([("cpus", missing_cpus([]))] if machine.cpus is None else []), []
    partitions, problems = named(machine, site)
    refused = {one.name: refusals(machine, one, site) for one in partitions}
    notes = [said for one in partitions for said in doubts(one, site)]
    taking = [one for one in partitions if not refused[one.name]]
    complaints = [said for list_ in refused.values() for said in list_]
    # SLURM takes the partition that is free first, so one that works is enough.
    (notes if taking else problems).extend(complaints)
    wrong = malformed(machine, site)
    problems += wrong
    there = [] if wrong else offers(site, taking or partitions)
    fitting = meeting(demands(machine), there) if there else []
    if fitting:
        notes += advice(machine, fitting)
    elif there:
        problems += unmet(demands(machine), there, _where(taking or partitions), site)
    elif partitions and not wrong:
        problems.append(("partition", f"{_where(partitions)} has no nodes: name another one."))
    if machine.cpus is None:
        problems.append(("cpus", missing_cpus(fitting)))
    return problems, notes


def _where(partitions: Sequence[Partition]) -> str:
    names = ", ".join(repr(partition.name) for partition in partitions)
    return f"partition{'s' if len(partitions) > 1 else ''} {names}"


def _placed(machine: Machine, said: Iterable[Said], root: Path | None) -> list[str]:
    """The messages with file, line and key in front."""
    sources = Sources([root / FILE], root, beyond="") if root else None
    texts = []
    for key, text in dict.fromkeys(said):
        place = (machine.name, key) if key else (machine.name,)
        where = sources.where(place) if sources else f"{FILE}, {'.'.join(place)}"
        texts.append(f"{where}: {text}")
    return texts
