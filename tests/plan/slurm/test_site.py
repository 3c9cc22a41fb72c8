"""What the cluster has, read from the answers of several versions of SLURM."""

from __future__ import annotations

import pytest

from gemmgrid.plan.slurm.ask import Answer, minutes
from gemmgrid.plan.slurm.site import names, parse_nodes, parse_partitions, read
from tests.plan.slurm.conftest import recorded


def nodes(version):
    return {node.name: node for node in parse_nodes(recorded(f"{version}-nodes"))}


def test_nodes_of_22_05():
    found = nodes("22.05")
    assert list(found) == ["fat1", "gpu1", "ice1", "ice2", "mil1"]
    fat, gpu, ice = found["fat1"], found["gpu1"], found["ice1"]
    assert (fat.cpus, fat.cores, fat.memory_mb, fat.partitions) == (64, 32, 5000, ("fat",))
    assert (gpu.gres, ice.gres, ice.features) == ("gpu:h200:1", None, ("avx512", "icelake"))
    assert all(node.usable and node.reason is None for node in found.values())


def test_nodes_of_23_11():
    found = nodes("23.11")
    assert "gr2" not in found  # FUTURE: it does not exist yet
    first = found["cn001"]
    assert (first.cpus, first.cpus_total, first.memory_mb) == (126, 128, 510000)
    assert first.partitions == ("compute", "wide")
    assert {name for name, node in found.items() if not node.usable} == {"cn003", "cn004"}
    assert found["cn003"].reason == "Kill task failed"
    assert found["cn004"].reason == "Not responding"
    assert found["gn01"].features == ()
    assert found["gn01"].gres == "gpu:H100:8"  # without the sockets it hangs on
    assert found["gr1"].arch == "aarch64"


def test_texts_that_people_write_do_not_change_a_node():
    assert nodes("23.11")["cn003"].state == "IDLE+DRAIN"
    assert nodes("23.11")["cn003"].gres is None
    only = nodes("24.11")["cn1"]
    assert (only.state, only.usable, only.gres) == ("IDLE+DYNAMIC_NORM", True, None)
    assert only.features == ("dmz", "genoa")


def test_nodes_of_20_11():
    found = nodes("20.11")
    assert found["q1"].cpus == found["q1"].cpus_total == 16
    assert (found["q1"].usable, found["q1"].reason) == (False, "Not responding")
    assert (found["q2"].usable, found["q2"].arch) == (True, None)


def test_partitions():
    found = parse_partitions(recorded("23.11-partitions"))
    assert list(found) == ["compute", "gpu", "cpu-of-gpu", "arm", "wide", "old"]
    compute, gpu, _, arm, wide, old = found.values()
    assert (compute.default, compute.state, compute.max_minutes) == (True, "UP", 2880)
    assert (gpu.max_minutes, gpu.default) == (None, False)
    assert (arm.max_minutes, wide.max_minutes, old.state) == (90, 36 * 60, "INACTIVE")


def test_ten_thousand_nodes():
    line = recorded("22.05-nodes").splitlines()[0]
    text = "\n".join(line.replace("fat1", f"n{number:05d}") for number in range(10_000))
    found = parse_nodes(text)
    assert len({node.name for node in found}) == 10_000
    assert len({node.kind for node in found}) == 1
    assert names(found) == "n00000, n00001, n00002 … and 9997 more"


@pytest.mark.parametrize("text", ["", "No nodes in the system\n", "NodeName=\n", "NodeName=x\n"])
def test_lines_that_are_no_nodes(text):
    assert parse_nodes(text) == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *(("30", 30), ("30:01", 31), ("01:00:00", 60), ("1-00:00:00", 1440), ("2-12", 3600)),
        *(("1-01:30", 1530), ("UNLIMITED", None), ("NONE", None), (None, None), ("", None)),
    ],
)
def test_times_are_minutes(text, expected):
    assert minutes(text) == expected


def test_a_cluster_that_does_not_answer_says_why():
    answers = {"partition": Answer(recorded("22.05-partitions")), "node": Answer(None, "too slow")}

    def asking(*words, **more):
        return answers[words[-1]]

    assert read(asking).problem == "too slow"
    answers["node"] = Answer(recorded("22.05-nodes"))
    found = read(asking)
    assert (found.problem, len(found.nodes), len(found.partitions)) == (None, 5, 3)
    answers["partition"] = Answer("")
    assert "named no partition" in str(read(asking).problem)
