"""What the check before submission says of a machine's entry, with the cluster as it is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from gemmgrid.plan.slurm.accounts import Association
from gemmgrid.plan.slurm.preflight import check, matching

from gemmgrid.plan.slurm.site import Site

GOOD = "{partition: cpu, constraint: icelake, cpus: 2, memory_mb: 4000, runtime_min: 60}"


def said(machines, site):
    """Problems and notes, without the file in front."""
    findings = check(machines, site)
    front = "config/machines.yaml, "
    texts = [*findings.problems, *findings.notes]
    assert all(text.startswith(front) for text in texts), texts
    cut = [
        [text.removeprefix(front) for text in part] for part in (findings.problems, findings.notes)
    ]
    return cut[0], cut[1]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (GOOD, ["ice1", "ice2"]),
        ('{gres: "gpu:h200:1", partition: gpu, cpus: 2, runtime_min: 1}', ["gpu1"]),
        ("{partition: fat, cpus: 64, cores: 32}", ["fat1"]),
        ("{constraint: milan, cpus: 2}", ["mil1"]),  # the default partition
        ('{partition: "fat,gpu", constraint: h200, cpus: 2}', ["gpu1"]),
    ],
)
def test_good_entries(small, entry, text, names):
    machines = entry(f"x: {text}")
    assert said(machines, small) == ([], [])
    assert [node.name for node in matching(machines["x"], small)] == names


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
            "x.constraint: found 'icelak', and no node of this cluster has the feature 'icelak'. "
            "Allowed: avx512, fat, h200, icelake, milan. Did you mean 'icelake'?",
        ),
        (
            "{constraint: icelake&&avx512, cpus: 2}",
            "x.constraint: found 'icelake&&avx512', which SLURM does not take: "
            "'&' stands where a feature's name is expected.",
        ),
        (
            "{constraint: icelake*2&avx512, cpus: 2}",
            "x.constraint: found 'icelake*2&avx512', which gives a job 2 nodes, and a machine is "
            "measured on one. Write 'constraint: icelake&avx512'.",
        ),
        (
            "{constraint: '[icelake*1&milan*1]', cpus: 2}",
            "x.constraint: found '[icelake*1&milan*1]', which gives a job 2 nodes, and a machine "
            "is measured on one. Leave the counts out, and make a machine of each feature.",
        ),
        (
            "{partition: fat, constraint: icelake, cpus: 64}",
            "x.constraint: found 'icelake', and no node of partition 'fat' has what this asks for. "
            "Features there: fat. Nodes that have it: ice[1-2] in partition cpu.",
        ),
        (
            "{constraint: icelake&milan, cpus: 2}",
            "x.constraint: found 'icelake&milan', and no node of partition 'cpu' has what this "
            "asks for. Features there: avx512, icelake, milan.",
        ),
        (
            "{partition: cpu, constraint: milan, gres: 'gpu:h200:1', cpus: 2}",
            "x.gres: found 'gpu:h200:1', and no node of partition 'cpu' has it. "
            "Gres there, for each node: none. Nodes that have it: gpu1 in partition gpu.",
        ),
        (
            "{partition: gpu, gres: 'gpu:h200:2', cpus: 2}",
            "x.gres: found 'gpu:h200:2', and no node of partition 'gpu' has it. "
            "Gres there, for each node: gpu:h200:1. Did you mean 'gpu:h200:1'?",
        ),
        (
            "{partition: gpu, gres: 'gpu:h200:1,gpu:1', cpus: 2}",
            "x.gres: found 'gpu:h200:1,gpu:1': SLURM refuses 'gpu' with and without a type in one "
            "request.",
        ),
        (
            "{partition: fat, cpus: 65}",
            "x.cpus: found 65, and no node of partition 'fat' has as many CPUs for jobs. "
            "The largest that matches otherwise is fat1 with 64: write 'cpus: 64' or less.",
        ),
        (
            "{constraint: milan, cpus: 64}",
            "x.cpus: found 64, and no node of partition 'cpu' has as many CPUs for jobs. "
            "The largest that matches otherwise is mil1 with 2: write 'cpus: 2' or less. "
            "Nodes that have it: fat1 in partition fat.",
        ),
        (
            "{constraint: milan, cpus: 2, memory_mb: 64000}",
            "x.memory_mb: found 64000, and no node of partition 'cpu' has as many MB of memory for "
            "jobs. The largest that matches otherwise is mil1 with 5000: "
            "write 'memory_mb: 5000' or less.",
        ),
        (
            "{constraint: milan, cpus: 2, runtime_min: 61}",
            "x.runtime_min: found 61, and partition 'cpu' allows at most 60 minutes (MaxTime): "
            "SLURM would refuse the job or let it wait for ever. Write 'runtime_min: 60' or less.",
        ),
        (
            "{partition: fat, cpus: 64, cores: 32, platform: linux-aarch64}",
            "x.platform: found 'linux-aarch64', and no node of partition 'fat' has it. "
            "Write 'platform: linux-x86_64'.",
        ),
        (
            "{partition: 'cpu,gpu', constraint: icelake, gres: 'gpu:1', cpus: 2}",
            "x: no single node of partitions 'cpu', 'gpu' has all of: "
            "constraint 'icelake' (ice[1-2]); gres 'gpu:1' (gpu1); cpus 2 (gpu1,ice[1-2],mil1). "
            "Without constraint it would be gpu1. Without gres it would be ice[1-2].",
        ),
        (
            "{partition: 'cpu,fat', constraint: icelake, cpus: 64}",
            "x: no single node of partitions 'cpu', 'fat' has all of: "
            "constraint 'icelake' (ice[1-2]); cpus 64 (fat1). "
            "Without constraint it would be fat1. With 'cpus: 2' it would be ice1.",
        ),
        (
            "{partition: fat}",
            "x.cpus: missing. The measuring step is bound to so many CPUs, and 'threads: all' "
            "means them. Matching nodes (fat1) have 64: add 'cpus: 64'.",
        ),
        (
            "{partition: gpu, constraint: icelake}",
            "x.cpus: missing. The measuring step is bound to so many CPUs, and 'threads: all' "
            "means them. Add 'cpus: <CPUs of one node>'.",
        ),
    ],
)
def test_problems(small, entry, text, problem):
    machines = entry(f"x: {text}")
    problems, _ = said(machines, small)
    assert problem in problems
    # Anything else that is said must be about another key.
    assert len([one for one in problems if one.partition(":")[0] == problem.partition(":")[0]]) == 1


def test_all_problems_at_once_with_their_lines(small, entry, tmp_path):
    machines = entry(
        "good:\n  partition: cpu\n  constraint: milan\n  cpus: 2\n"
        "bad:\n  partition: cpu\n  constraint: milann\n  gres: 'gpu:'\n  runtime_min: 90\n"
        "worse: {partition: nope}\n"
    )
    findings = check(machines, small, tmp_path)
    places = [text.partition(": ")[0] for text in findings.problems]
    assert places == [
        "config/machines.yaml, line 9, bad.runtime_min",
        "config/machines.yaml, line 7, bad.constraint",
        "config/machines.yaml, line 8, bad.gres",
        "config/machines.yaml, bad.cpus",
        "config/machines.yaml, line 10, worse.partition",
        "config/machines.yaml, worse.cpus",
    ]
    assert findings.notes == []


@pytest.mark.parametrize(
    ("state", "meaning"),
    [
        ("DOWN", "jobs are taken, but none starts"),
        ("DRAIN", "no new jobs are taken"),
        ("INACTIVE", "no jobs are taken and none starts"),
    ],
)
def test_a_partition_that_is_not_up(small, entry, state, meaning):
    partitions = dict(small.partitions)
    partitions["cpu"] = replace(partitions["cpu"], state=state)
    site = replace(small, partitions=partitions)
    assert said(entry(f"x: {GOOD}"), site) == (
        [f"x.partition: partition 'cpu' is {state}: {meaning}. Partitions that are up: gpu, fat."],
        [],
    )
    # With another partition to go to it is worth a note only.
    both = entry("x: {partition: 'cpu,fat', constraint: fat, cpus: 64, cores: 32}")
    problems, notes = said(both, site)
    assert problems == []
    assert [note.partition(":")[0] for note in notes] == ["x.partition"]


def test_no_default_partition(small, entry):
    partitions = {name: replace(one, default=False) for name, one in small.partitions.items()}
    site = replace(small, partitions=partitions)
    assert said(entry("x: {constraint: milan, cpus: 2}"), site)[0] == [
        "x.partition: missing, and this cluster has no default partition. Allowed: cpu, gpu, fat."
    ]


def test_a_partition_without_nodes_or_for_wide_jobs(large, entry):
    problems, _ = said(entry("x: {partition: old, cpus: 2}"), large)
    assert problems == [
        "x.partition: partition 'old' is INACTIVE: no jobs are taken and none starts. "
        "Partitions that are up: compute, gpu, cpu-of-gpu, arm, wide.",
        "x.partition: partition 'old' has no nodes: name another one.",
    ]
    problems, _ = said(entry("x: {partition: wide, cpus: 126}"), large)
    assert problems == [
        "x.partition: partition 'wide' takes jobs of 2 nodes or more (MinNodes), and a machine is "
        "measured on one. Name another partition."
    ]


def test_what_the_system_keeps_for_itself_is_not_for_jobs(large, entry):
    problems, _ = said(entry("x: {constraint: EPYC-7742, cpus: 128, memory_mb: 511000}"), large)
    assert problems == [
        "x: no single node of partition 'compute' has all of: "
        "constraint 'EPYC-7742' (cn[001-004]); cpus 128 (cn005); memory_mb 511000 (cn005). "
        "Without constraint it would be cn005."
    ]
    problems, _ = said(entry("x: {constraint: EPYC-7742, cpus: 128}"), large)
    assert "With 'cpus: 126' it would be cn001." in problems[0]


def test_limits_of_a_partition_for_each_node(large, entry):
    problems, _ = said(entry("x: {partition: cpu-of-gpu, cpus: 96, memory_mb: 300000}"), large)
    assert [one.partition(", and")[0] for one in problems] == [
        "x.cpus: found 96",
        "x.memory_mb: found 300000",
    ]
    assert "is gn01 with 64: write 'cpus: 64'" in problems[0]
    assert "is gn01 with 256000: write 'memory_mb: 256000'" in problems[1]


def test_nodes_of_several_kinds(small, entry):
    problems, notes = said(entry("x: {cpus: 2}"), small)
    assert problems == []
    assert notes == [
        "x: its name would mix 2 kinds of node: "
        "ice[1-2] (2 CPUs, 2 cores, features avx512,icelake); "
        "mil1 (2 CPUs, 2 cores, features milan). "
        "Features that tell them apart: avx512, icelake, milan; name them in 'constraint', "
        "one machine for each kind."
    ]


def test_kinds_that_no_feature_tells_apart(small, entry):
    other = replace(small.nodes[2], name="ice3", cpus=4, cpus_total=4, cores_per_socket=4)
    site = replace(small, nodes=(*small.nodes, other))
    _, notes = said(entry("x: {constraint: icelake, cpus: 2}"), site)
    assert len(notes) == 1
    assert (
        "ice3 (4 CPUs, 4 cores, features avx512,icelake). No feature tells them apart" in notes[0]
    )
    problems, _ = said(entry("x: {constraint: icelake}"), site)
    assert problems[0].endswith(
        "Add 'cpus: 2' (ice[1-2]) or 'cpus: 4' (ice3), and a constraint that leaves one kind."
    )


def test_cpus_that_would_not_be_bound(small, entry):
    problems, notes = said(entry("x: {partition: fat, cpus: 32}"), small)
    assert problems == []
    assert notes == [
        "x.cpus: found 32: the whole node is taken (exclusive: true), but only 32 of 64 CPUs would "
        "be bound to the step that measures. Write 'cpus: 64' unless that is meant."
    ]
    assert said(entry("x: {partition: fat, cpus: 32, exclusive: false}"), small) == ([], [])


@pytest.mark.parametrize(
    ("cores", "start"),
    [
        ("", "x.cores: missing, so 'threads: physical' means 64 threads, and"),
        (", cores: 16", "x.cores: found 16, and"),
        (", cores: 32", None),
    ],
)
def test_physical_cores(small, entry, cores, start):
    _, notes = said(entry(f"x: {{partition: fat, cpus: 64{cores}}}"), small)
    expected = f"{start} the matching nodes have 32 physical cores: 'cores: 32'"
    assert notes == ([expected] if start else [])


def test_all_matching_nodes_are_down(large, entry):
    down = tuple(node for node in large.nodes if node.name not in ("cn001", "cn002"))
    _, notes = said(entry("x: {constraint: EPYC-7742, cpus: 126}"), replace(large, nodes=down))
    assert notes == [
        "x: jobs would wait: no matching node runs jobs now: "
        "cn003 is IDLE+DRAIN (Kill task failed); cn004 is DOWN+NOT_RESPONDING (Not responding)"
    ]
    assert said(entry("x: {constraint: EPYC-7742, cpus: 126}"), large) == ([], [])


def test_nodes_of_another_architecture(large, entry):
    problems, _ = said(entry("x: {partition: arm, cpus: 72}"), large)
    assert problems == [
        "x.platform: found 'linux-x86_64', and no node of partition 'arm' has it. "
        "Write 'platform: linux-aarch64'."
    ]
    machines = entry("x: {partition: arm, cpus: 72, platform: linux-aarch64}")
    assert said(machines, large) == ([], [])


MINE = (
    Association("physics", None, ("normal", "long")),
    Association("astro", "compute", ("normal",)),
)
H100 = "partition: gpu, gres: 'gpu:H100:8', cpus: 104"


def test_accounts_that_a_partition_takes(large, entry):
    assert said(entry(f"x: {{{H100}, account: Physics, qos: gpu}}"), large) == ([], [])
    problems, _ = said(entry(f"x: {{{H100}, account: phisics, qos: night}}"), large)
    assert problems == [
        "x.account: found 'phisics', which partition 'gpu' does not take (it takes physics, chem). "
        "Allowed: physics, chem. Did you mean 'physics'?",
        "x.qos: found 'night', which partition 'gpu' does not take (it takes normal, gpu). "
        "Allowed: normal, gpu.",
    ]
    machines = entry("x: {constraint: EPYC-7742, cpus: 126, qos: night, account: any}")
    assert said(machines, large)[0] == [
        "x.qos: found 'night', which partition 'compute' does not take. "
        "Name another qos or another partition."
    ]


def test_accounts_that_the_user_has(large, entry):
    site = replace(large, associations=MINE, qos_enforced=True)
    assert said(entry(f"x: {{{H100}, account: physics, qos: normal}}"), site) == ([], [])
    problems, _ = said(entry(f"x: {{{H100}, account: chem}}"), site)
    assert problems == [
        "x.account: found 'chem', which this user does not have in partition 'gpu'. "
        "Allowed: physics."
    ]
    problems, _ = said(entry(f"x: {{{H100}, account: physics, qos: gpu}}"), site)
    assert problems == [
        "x.qos: found 'gpu', which this user does not have in partition 'gpu'. "
        "Allowed: long, normal."
    ]
    only = replace(site, associations=MINE[:1], qos_enforced=False)
    assert said(entry(f"x: {{{H100}, qos: gpu}}"), only) == ([], [])


def test_none_of_the_users_accounts(large, entry):
    site = replace(large, associations=(Association("bio", None, ()),))
    problems, _ = said(entry(f"x: {{{H100}}}"), site)
    assert problems == [
        "x.account: missing, and partition 'gpu' takes none of this user's accounts (bio) "
        "(it takes physics, chem)."
    ]


@pytest.mark.parametrize(
    ("groups", "notes"),
    [
        (None, 0),
        (frozenset({"users", "staff"}), 0),
        (frozenset({"users"}), 1),
    ],
)
def test_groups_are_a_doubt_only(large, entry, groups, notes):
    machines = entry("x: {partition: arm, cpus: 72, platform: linux-aarch64}")
    problems, doubts = said(machines, replace(large, groups=groups))
    assert problems == []
    assert len(doubts) == notes
    assert all("is open to the groups teaching, staff only" in doubt for doubt in doubts)


def test_the_cluster_cannot_be_asked(entry):
    site = Site(problem="'scontrol' is not installed here (not found in PATH)")
    machines = entry(f"x: {GOOD}\ny: {{partition: nope}}")
    findings = check(machines, site)
    assert findings.notes == [
        "nothing in config/machines.yaml could be checked against the cluster: "
        "'scontrol' is not installed here (not found in PATH)"
    ]
    # What can be known without a cluster is said all the same.
    assert [one.partition(". ")[0] for one in findings.problems] == [
        "config/machines.yaml, y.cpus: missing"
    ]
    assert check({}, site).notes == []
    assert matching(machines["x"], site) == ()


@pytest.mark.parametrize("text", ["{constraint: '(('}", "{gres: 'gpu:a:b:c'}", "{partition: nope}"])
def test_wrong_entries_match_no_node(small, entry, text):
    assert matching(entry(f"x: {text}")["x"], small) == ()
