"""Whether SLURM would take a machine's allocations, and on which nodes: before anything is sent.

SLURM decides itself, by `sbatch --test-only`: whether it takes an allocation; if not, without which
key of the entry it would; and for each kind of node whether the entry matches it. Said beside that
is only what SLURM would let wait for ever (a partition that is down, a time limit above the
partition's) or cannot know (the platform, `cpus`, kinds of node that one name would mix).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gemmgrid.plan.config.errors import choose, found
from gemmgrid.plan.config.machines import FILE, Machine
from gemmgrid.plan.config.sources import Sources
from gemmgrid.plan.slurm.advice import Said, advice
from gemmgrid.plan.slurm.ask import Asking, ask
from gemmgrid.plan.slurm.forecast import Allocation, largest
from gemmgrid.plan.slurm.site import Node, Partition, Site, names
from gemmgrid.system.project import find

KINDS = 40
"""So many kinds of node are asked about; on a cluster of more, the rest is not counted."""
SHOWN = 5
_SILENT = re.compile(
    r"contact slurm controller|configuration source|temporarily unable|timed out|connection refused"
    r"|communication|zero bytes|authentication|munge",
    re.I,
)

"""What the commands say when the controller cannot be asked: that is no refusal."""
_OPTIONS = {
    "partition": "--partition",
    "constraint": "--constraint",
    "gres": "--gres",
    "account": "--account",
    "qos": "--qos",
    "cpus": "--cpus-per-task",
    "runtime_min": "--time",
    "memory_mb": "--mem",
}
"""Keys of an entry as words of sbatch."""
_STATES = {
    "DOWN": "jobs are taken, but none starts",
    "DRAIN": "no new jobs are taken",
    "INACTIVE": "no jobs are taken and none starts",
}


@dataclass
class Findings:
    """What is wrong (nothing should be sent), and what its reader should know all the same.

    nodes   by machine, how many nodes its entry matches; None where the cluster cannot be asked
    """

    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    nodes: dict[str, int] | None = None


def check(
    machines: Mapping[str, Machine],
    allocations: Sequence[Allocation],
    site: Site,
    cell_minutes: int,
    root: Path | None = None,
    words: Sequence[str] = (),
    asking: Asking = ask,
) -> Findings:
    """Hold the entries of all machines that get allocations against the cluster.

    cell_minutes   what one cell may take at most
    words          for sbatch, that the command line adds

    Each message says file, machine and key, what was found, what is allowed and what to write;
    with the project's `root` also the line. Where the cluster could not be asked, one note says so.
    """
    findings = Findings(nodes={} if site.problem is None else None)
    if site.problem is not None and allocations:
        findings.notes.append(
            f"nothing in {FILE} could be checked against the cluster: {site.problem}"
        )
    for one in largest(allocations):
        name = one.machine
        entry = _Entry(machines[name], one, cell_minutes, site, words, asking)
        entry.check()
        findings.problems += _placed(name, entry.problems, root)
        findings.notes += _placed(name, entry.notes, root)
        if findings.nodes is not None:
            findings.nodes[name] = len(entry.there)
    return findings


class _Entry:
    """One machine's entry, as its largest allocation asks for it."""

    def __init__(
        self,
        machine: Machine,
        one: Allocation,
        cell_minutes: int,
        site: Site,
        words: Sequence[str],
        asking: Asking,
    ) -> None:
        self.written, self.cell_minutes, self.site = machine, cell_minutes, site
        self.machine = replace(machine, runtime_min=one.minutes, memory_mb=one.memory_mb)
        self.words, self.asking = list(words), asking
        self.problems: list[Said] = []
        self.notes: list[Said] = []
        self.there: list[Node] = []
        """The nodes that match."""

    def check(self) -> None:
        if self.site.problem is not None:
            self._need_cpus()
            return
        partitions = self._partitions()
        nodes = [node for node in self.site.nodes if {*partitions} & {*node.partitions}]
        self.where = f"partition{'s' if len(partitions) > 1 else ''} " + ", ".join(
            map(repr, partitions)
        )
        if partitions and not nodes:
            self.problems.append(("partition", f"{self.where} has no nodes: name another one."))
        self.there = self._matching(self.machine, nodes)
        self._need_cpus()
        if self.problems:
            return
        if not any(node.usable for node in nodes):
            shown = [f"{node.name} is {node.state}{_reason(node)}" for node in nodes[:SHOWN]]
            self.notes.append(
                (None, f"jobs would wait: no node there runs jobs now: {'; '.join(shown)}")
            )
            return
        refusal = self._refusal(self.machine)
        if refusal:
            self._explain(refusal, nodes)
        else:
            problems, notes = advice(self.machine, self.there)
            self.problems += problems
            self.notes += notes

    def _partitions(self) -> list[str]:
        """The partitions that the jobs may go to; SLURM takes the one that is free first."""
        known, named = self.site.partitions, self.machine.partition
        if named is None:
            default = [one.name for one in known.values() if one.default]
            if not default:
                text = f"missing, and this cluster has no default partition. {choose('', known)}"
                self.problems.append(("partition", text))
            chosen = default
        else:
            chosen = [name for name in named.split(",") if name]
        unknown = [name for name in chosen if name not in known]
        self.problems += [
            (
                "partition",
                f"found {found(name)}, and this cluster has no partition of that name. "
                f"{choose(name, known)}",
            )
            for name in unknown
        ]
        chosen = [name for name in chosen if name in known]
        refused = {name: self._refused_by(known[name]) for name in chosen}
        taking = [name for name in chosen if not refused[name]]
        complaints = [said for each in refused.values() for said in each]
        (self.notes if taking else self.problems).extend(complaints)
        return taking or chosen

    def _refused_by(self, partition: Partition) -> list[Said]:
        """Why jobs would wait in this partition for ever."""
        said: list[Said] = []
        name, longest = found(partition.name), partition.max_minutes
        if partition.state in _STATES:
            others = [one.name for one in self.site.partitions.values() if one.state == "UP"]
            text = f"partition {name} is {partition.state}: {_STATES[partition.state]}."
            up = f" Partitions that are up: {', '.join(others)}." if others else ""
            said.append(("partition", text + up))
        wanted = self.machine.runtime_min
        if longest is not None and wanted is not None and wanted > longest:
            text = (
                f"found {wanted}, and partition {name} allows at most {longest} minutes (MaxTime): "
                f"SLURM would refuse the job or let it wait for ever. "
                f"Write 'runtime_min: {longest}' or less."
            )
            if self.written.runtime_min is None:
                text += (
                    " It is the sum over the cells of an allocation, "
                    f"{self.cell_minutes} minutes each at most: with runtime_min in the entry they "
                    "are spread over more."
                )
            said.append(("runtime_min", text))
        return said

    def _need_cpus(self) -> None:
        if self.machine.cpus is not None:
            return
        text = "missing. The job gets so many CPUs, and 'threads: all' means them."
        by_cpus: dict[int, list[Node]] = {}
        for node in self.there:
            by_cpus.setdefault(node.cpus, []).append(node)
        shown = [f"'cpus: {cpus}' ({names(nodes)})" for cpus, nodes in sorted(by_cpus.items())]
        cures = " or ".join(shown[:SHOWN]) or "'cpus: <CPUs of one node>'"
        more = ", and a constraint that leaves one kind" if len(shown) > 1 else ""
        self.problems.append(("cpus", f"{text} Add {cures}{more}."))

    def _refusal(self, machine: Machine, *more: str) -> str | None:
        """Why SLURM would not take such an allocation; None where it would, or is silent."""
        words = [*request(machine), *self.words, *more]
        answer = self.asking("sbatch", "--test-only", *words, "--wrap=true", limit_s=20.0)
        if answer.said is None or _SILENT.search(answer.said):
            return None
        lines = [line.strip() for line in answer.said.splitlines() if line.strip()] or ["no reason"]
        return re.sub(r"^((allocation failure|sbatch: (error|fatal)): )+", "", lines[-1])

    def _matching(self, machine: Machine, nodes: Sequence[Node]) -> list[Node]:
        """Those of the nodes on which SLURM would start the machine's jobs: one of each kind is
        asked about."""
        kinds: dict[object, list[Node]] = {}
        for node in nodes:
            kinds.setdefault(node.kind, []).append(node)
        asked = [
            (alike, next((node for node in alike if node.usable), None)) for alike in kinds.values()
        ]
        return [
            node
            for alike, one in asked[:KINDS]
            if one and not self._refusal(machine, f"--nodelist={one.name}")
            for node in alike
        ]

    def _explain(self, refusal: str, nodes: Sequence[Node]) -> None:
        """Say without which key SLURM would take it, and what would do instead."""
        keys = [key for key in _OPTIONS if key != "partition" and getattr(self.machine, key)]
        nothing: dict[str, Any] = dict.fromkeys(keys)
        without = {key: replace(self.machine, **{key: value}) for key, value in nothing.items()}
        guilty = [key for key in keys if self._refusal(without[key]) is None]
        down = [node for node in nodes if not node.usable]
        more = f" Not counted, because they run no jobs now: {names(down)}." if down else ""
        if len(guilty) == 1:
            (key,) = guilty
            text = self._cure(key, refusal, nodes, self._matching(without[key], nodes))
            self.problems.append((key, text + more))
            return
        words = shlex.join([*request(self.machine), *self.words])
        text = f"SLURM refuses such an allocation: {refusal} (sbatch --test-only {words})."
        if guilty:
            wanted = "; ".join(f"{key} {getattr(self.machine, key)!r}" for key in guilty)
            cures = [
                f"Without {key} it would be {names(self._matching(without[key], nodes))}."
                for key in guilty
            ]
            text = f"no single node of {self.where} has all of: {wanted}. {' '.join(cures)}"
        self.problems.append((None, text + more))

    def _cure(self, key: str, refusal: str, nodes: Sequence[Node], close: Sequence[Node]) -> str:
        """The message about the one key that SLURM refuses; `close` are the nodes without it."""
        value = getattr(self.machine, key)
        head = f"found {found(value)}, and no node of {self.where} has"
        if key == "constraint":
            features = sorted({feature for node in nodes for feature in node.features})
            everywhere = sorted({one for node in self.site.nodes for one in node.features})
            guess = choose(value, everywhere).partition(" Did you mean ")[2]
            there = ", ".join(features[:24]) + (" …" if len(features) > 24 else "") or "none"
            meant = f" Did you mean {guess}" if guess else ""
            return f"{head} what this asks for ({refusal}). Features there: {there}.{meant}"
        if key == "gres":
            offered = {
                f"{node.gres} in partition {', '.join(node.partitions)}"
                for node in self.site.nodes
                if node.gres
            }
            listed = "; ".join(sorted(offered)[:SHOWN]) or "none"
            return f"{head} it ({refusal}). Gres on this cluster, for each node: {listed}."
        if key in ("cpus", "memory_mb"):
            attribute, unit = (key, "CPUs" if key == "cpus" else "MB of memory")
            largest = max(close or nodes, key=lambda node: int(getattr(node, attribute)))
            most = getattr(largest, attribute)
            text = (
                f"{head} as many {unit} for jobs. The largest that matches otherwise is "
                f"{largest.name} with {most}: write '{key}: {most}' or less."
            )
            if getattr(self.written, key) is None:
                text += " It is what the largest cell of the study needs."
            return text
        return f"found {found(value)}, and SLURM refuses it: {refusal}."


def request(machine: Machine) -> list[str]:
    """The words of sbatch for an allocation of this machine, as the executor writes them."""
    asked = {option: getattr(machine, key) for key, option in _OPTIONS.items()}
    words = [f"{option}={value}" for option, value in asked.items() if value is not None]
    return [*words, "--ntasks=1", "--nodes=1", *(["--exclusive"] if machine.exclusive else [])]


def _reason(node: Node) -> str:
    return f" ({node.reason})" if node.reason else ""


def _placed(name: str, said: Iterable[Said], root: Path | None) -> list[str]:
    """The messages with file, line and key in front."""
    sources = Sources([find(root, FILE)], root, beyond="") if root else None
    texts = []
    for key, text in dict.fromkeys(said):
        place = (name, key) if key else (name,)
        where = sources.where(place) if sources else f"{FILE}, {'.'.join(place)}"
        texts.append(f"{where}: {text}")
    return texts
