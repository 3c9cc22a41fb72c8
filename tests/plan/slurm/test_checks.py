"""What is said of a machine's entry before anything is sent. SLURM's own decisions come from a test
double here; tests/slurm asks the real one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gemmgrid.plan.slurm.ask import Answer
from gemmgrid.plan.slurm.checks import check
from gemmgrid.plan.slurm.forecast import Allocation
from gemmgrid.plan.slurm.site import Site

CELL_MINUTES = 41
NOT_AVAILABLE = "allocation failure: Requested node configuration is not available"


class Slurm:
    """A test double of `sbatch --test-only` that knows `&` in constraints and whole gres."""

    def __init__(self, site: Site) -> None:
        self.site, self.asked, self.silent = site, list[tuple[str, ...]](), False
        self.accounts = {"mine"}

    def __call__(self, command: str, *words: str, limit_s: float = 10.0) -> Answer:
        assert (command, words[0], words[-1]) == ("sbatch", "--test-only", "--wrap=true")
        self.asked.append(words)
        if self.silent:
            return Answer(None, "down", "sbatch: error: Unable to contact slurm controller\n")
        refusal = self.refusal(dict(word.split("=", 1) for word in words if "=" in word))
        return Answer(None, "refused", f"{refusal}\n") if refusal else Answer("")

    def refusal(self, asked: dict[str, str]) -> str | None:
        if asked.get("--account", "mine") not in self.accounts:
            return "sbatch: error: Batch job submission failed: Invalid account"
        wanted = set(asked.get("--constraint", "").split("&")) - {""}
        if not wanted <= {feature for node in self.site.nodes for feature in node.features}:
            return "allocation failure: Invalid feature specification"
        fitting = [
            node
            for node in self.site.nodes
            if {*node.partitions} & {*asked.get("--partition", "cpu").split(",")}
            and wanted <= {*node.features}
            and asked.get("--gres") in (None, node.gres)
            and int(asked.get("--cpus-per-task", 1)) <= node.cpus
            and int(asked.get("--mem", 1)) <= node.memory_mb
            and asked.get("--nodelist", node.name) == node.name
            and node.usable
        ]
        return None if fitting else NOT_AVAILABLE


def found(machines, site, minutes=10, memory_mb=1000, slurm=None, words=()):
    allocations = [
        Allocation(one.name, 5, minutes, one.cpus, one.memory_mb or memory_mb)
        for one in machines.values()
    ]
    slurm = slurm or Slurm(site)
    return check(machines, allocations, site, CELL_MINUTES, words=words, asking=slurm)


def said(machines, site, **more):
    """Problems and notes, without the file in front."""
    findings = found(machines, site, **more)
    front = "config/machines.yaml, "
    texts = (findings.problems, findings.notes)
    assert all(text.startswith(front) for part in texts for text in part), texts
    return tuple([text.removeprefix(front) for text in part] for part in texts)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("{partition: cpu, constraint: icelake, cpus: 2, memory_mb: 4000}", 2),
        ('{gres: "gpu:h200:1", partition: gpu, cpus: 2}', 1),
        ("{partition: fat, cpus: 64, cores: 32}", 1),
        ("{constraint: milan, cpus: 2}", 1),  # the default partition
        ('{partition: "fat,gpu", constraint: h200, cpus: 2}', 1),
    ],
)
def test_good_entries(small, entry, text, count):
    findings = found(entry(f"x: {text}"), small)
    assert (findings.problems, findings.notes) == ([], [])
    assert findings.nodes == {"x": count}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "{partition: cpuu, cpus: 2}",
            "x.partition: found 'cpuu', and this cluster has no partition of that name. "
            "Allowed: cpu, gpu, fat. Did you mean 'cpu'?",
        ),
        (
            "{constraint: icelak, cpus: 2}",
            "x.constraint: found 'icelak', and no node of partition 'cpu' has what this asks for "
            "(Invalid feature specification). Features there: avx512, icelake, milan. "
            "Did you mean 'icelake'?",
        ),
        (
            "{partition: cpu, constraint: milan, gres: 'gpu:h200:1', cpus: 2}",
            "x.gres: found 'gpu:h200:1', and no node of partition 'cpu' has it (Requested node "
            "configuration is not available). Gres on this cluster, for each node: gpu:h200:1 in "
            "partition gpu.",
        ),
        (
            "{partition: fat, cpus: 65}",
            "x.cpus: found 65, and no node of partition 'fat' has as many CPUs for jobs. "
            "The largest that matches otherwise is fat1 with 64: write 'cpus: 64' or less.",
        ),
        (
            "{constraint: milan, cpus: 2, memory_mb: 64000}",
            "x.memory_mb: found 64000, and no node of partition 'cpu' has as many MB of memory for "
            "jobs. The largest that matches otherwise is mil1 with 5000: "
            "write 'memory_mb: 5000' or less.",
        ),
        (
            "{partition: fat, cpus: 64, cores: 32, platform: linux-aarch64}",
            "x.platform: found 'linux-aarch64', and the nodes that match are others. "
            "Write 'platform: linux-x86_64'.",
        ),
        (
            "{partition: 'cpu,gpu', constraint: icelake, gres: 'gpu:h200:1', cpus: 2}",
            "x: no single node of partitions 'cpu', 'gpu' has all of: constraint 'icelake'; gres "
            "'gpu:h200:1'. Without constraint it would be gpu1. Without gres it would be ice1, "
            "ice2.",
        ),
        (
            "{partition: fat}",
            "x.cpus: missing. The job gets so many CPUs, and 'threads: all' means them. "
            "Add 'cpus: 64' (fat1).",
        ),
        (
            "{partition: 'cpu,fat'}",
            "x.cpus: missing. The job gets so many CPUs, and 'threads: all' means them. "
            "Add 'cpus: 2' (ice1, ice2, mil1) or 'cpus: 64' (fat1), and a constraint that leaves "
            "one kind.",
        ),
        (
            "{cpus: 2, account: theirs, constraint: milan}",
            "x.account: found 'theirs', and SLURM refuses it: Batch job submission failed: "
            "Invalid account.",
        ),
    ],
)
def test_an_entry_that_cannot_be_met(small, entry, text, problem):
    problems, _ = said(entry(f"x: {text}"), small)
    assert problems == [problem]


def test_a_time_limit_above_the_partitions(small, entry):
    machines = entry("x: {constraint: milan, cpus: 2, runtime_min: 90}")
    (problem,), _ = said(machines, small, minutes=61)
    assert problem == (
        "x.runtime_min: found 61, and partition 'cpu' allows at most 60 minutes (MaxTime): "
        "SLURM would refuse the job or let it wait for ever. Write 'runtime_min: 60' or less."
    )
    assert said(machines, small, minutes=60) == ([], [])


def test_limits_that_the_user_did_not_write_name_their_cure(small, entry):
    machines = entry("x: {constraint: milan, cpus: 2}")
    (problem,), _ = said(machines, small, minutes=61)
    assert problem.endswith(
        "41 minutes each at most: with runtime_min in the entry they are spread over more."
    )
    (problem,), _ = said(machines, small, memory_mb=90_000)
    assert problem.endswith("or less. It is what the largest cell of the study needs.")


def test_a_partition_that_starts_nothing(large, entry):
    (problem, *_), _ = said(entry("x: {partition: old, cpus: 8}"), large)
    assert problem.startswith(
        "x.partition: partition 'old' is INACTIVE: no jobs are taken and none starts. "
        "Partitions that are up: compute, "
    )
    # SLURM takes the partition that is free first, so one that works is enough.
    problems, notes = said(entry("x: {partition: 'old,gpu', cpus: 8, cores: 4}"), large)
    assert problems == []
    assert any("'old' is INACTIVE" in note for note in notes)


def test_kinds_of_node_that_one_name_would_mix(small, entry):
    _, (note,) = said(entry("x: {cpus: 2}"), small)
    assert note == (
        "x: its name would mix 2 kinds of node: ice1, ice2 (2 CPUs, 2 cores, features "
        "avx512,icelake); mil1 (2 CPUs, 2 cores, features milan). Features that tell them apart: "
        "avx512, icelake, milan; name them in 'constraint', one machine for each kind."
    )


def test_fewer_cpus_and_other_cores_than_there_are(small, entry):
    _, notes = said(entry("x: {partition: fat, cpus: 16}"), small)
    assert any("'threads: all' means 16 of its 64 CPUs. Write 'cpus: 64'" in one for one in notes)
    _, (note,) = said(entry("x: {partition: fat, cpus: 64}"), small)
    assert note == (
        "x.cores: missing, so 'threads: physical' means 64 threads, and the matching nodes have "
        "32 physical cores: 'cores: 32'"
    )
    _, (note,) = said(entry("x: {partition: fat, cpus: 64, cores: 64}"), small)
    assert note.startswith("x.cores: found 64, and the matching nodes have 32")


def test_nodes_that_are_down(small, entry):
    def down(*names):
        return replace(
            small,
            nodes=tuple(
                replace(node, state="DOWN", reason="test") if node.name in names else node
                for node in small.nodes
            ),
        )

    assert said(entry("x: {partition: fat, cpus: 64}"), down("fat1")) == (
        [],
        ["x: jobs would wait: no node there runs jobs now: fat1 is DOWN (test)"],
    )
    (problem,), _ = said(entry("x: {constraint: milan, cpus: 2}"), down("mil1"))
    assert problem.endswith("Not counted, because they run no jobs now: mil1.")


def test_one_node_of_each_kind_is_asked_about_and_the_whole_once(small, entry):
    slurm = Slurm(small)
    found(entry("x: {constraint: icelake, cpus: 2}"), small, slurm=slurm, words=["--qos=night"])
    asked = [word for words in slurm.asked for word in words if word.startswith("--nodelist")]
    assert asked == ["--nodelist=ice1", "--nodelist=mil1"]
    assert len(slurm.asked) == 3
    assert all("--qos=night" in words and "--exclusive" in words for words in slurm.asked)


def test_a_controller_that_is_silent_refuses_nothing(small, entry):
    slurm = Slurm(small)
    slurm.silent = True
    assert found(entry("x: {constraint: icelak, cpus: 2}"), small, slurm=slurm).problems == []


def test_without_a_cluster_one_note_says_so(entry):
    findings = found(entry("x: {cpus: 2}\ny: {}"), Site(problem="'scontrol' is not installed here"))
    assert findings.notes == [
        "nothing in config/machines.yaml could be checked against the cluster: 'scontrol' is not "
        "installed here"
    ]
    (problem,) = findings.problems
    assert problem.startswith("config/machines.yaml, y.cpus: missing.")
    assert findings.nodes is None


def test_the_line_is_named(small, entry, tmp_path):
    machines = entry("x:\n  constraint: icelak\n  cpus: 2\n")
    allocation = Allocation("x", 5, 10, 2, 1000)
    findings = check(machines, [allocation], small, 2, root=tmp_path, asking=Slurm(small))
    assert findings.problems[0].startswith("config/machines.yaml, line 2, x.constraint: found")
