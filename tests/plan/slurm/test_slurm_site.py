"""What the cluster has, read from the answers of several versions of SLURM."""

from __future__ import annotations

import shutil

import pytest
from gemmgrid.plan.slurm.accounts import Association, enforced, parse_associations
from gemmgrid.plan.slurm.hostlist import fold

from gemmgrid.plan.slurm import fields
from gemmgrid.plan.slurm.site import parse_nodes, parse_partitions, read, setting
from tests.plan.slurm.conftest import RECORDED, recorded
from tests.plan.slurm.doubles import command


def nodes(name):
    return {node.name: node for node in parse_nodes(recorded(f"{name}-nodes"))}


def test_nodes_of_22_05():
    found = nodes("22.05")
    assert list(found) == ["fat1", "gpu1", "ice1", "ice2", "mil1"]
    fat, gpu, ice = found["fat1"], found["gpu1"], found["ice1"]
    assert (fat.cpus, fat.sockets, fat.cores_per_socket, fat.threads_per_core) == (64, 2, 16, 2)
    assert (fat.cores, fat.memory_mb, fat.partitions, fat.arch) == (32, 5000, ("fat",), "x86_64")
    assert [str(one) for one in gpu.gres] == ["gpu:h200:1"]
    assert ice.features == ice.active_features == {"icelake", "avx512"}
    assert ice.gres == ()
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
    assert found["gn01"].features == frozenset()
    assert [str(one) for one in found["gn01"].gres] == ["gpu:H100:8"]
    assert [str(one) for one in found["gn02"].gres] == [
        *("gpu:a100:4", "shard:a100:64", f"nvme:{3500 * 1024**3}"),
    ]
    assert found["gr1"].arch == "aarch64"


def test_texts_that_people_write_do_not_change_a_node():
    assert nodes("23.11")["cn003"].state == "IDLE+DRAIN"
    assert nodes("23.11")["cn003"].gres == ()
    only = nodes("24.11")["cn1"]
    assert (only.state, only.usable, only.gres) == ("IDLE+DYNAMIC_NORM", True, ())
    assert only.features == {"genoa", "dmz"}
    assert only.active_features == {"genoa"}


def test_nodes_of_20_11():
    found = nodes("20.11")
    assert found["q1"].cpus == found["q1"].cpus_total == 16
    assert (found["q1"].usable, found["q1"].reason) == (False, "Not responding")
    assert (found["q2"].usable, found["q2"].arch) == (True, None)


def test_partitions():
    found = parse_partitions(recorded("23.11-partitions"))
    assert list(found) == ["compute", "gpu", "cpu-of-gpu", "arm", "wide", "old"]
    compute, gpu, shared, arm, wide, old = found.values()
    assert (compute.default, compute.state, compute.max_minutes) == (True, "UP", 2880)
    assert (compute.max_nodes, compute.default_memory_mb_per_cpu) == (64, 3900)
    assert (compute.allow_accounts, compute.deny_qos, compute.exclusive) == ((), ("night",), False)
    assert (gpu.allow_accounts, gpu.allow_qos) == (("physics", "chem"), ("normal", "gpu"))
    assert (gpu.max_minutes, gpu.max_nodes, gpu.default) == (None, None, False)
    assert (gpu.exclusive, gpu.exclusive_user) == (True, True)
    assert (shared.over_subscribe, shared.max_cpus_per_node) == ("FORCE:4", 64)
    assert (shared.max_memory_mb, shared.default_memory_mb_per_node) == (256000, 16000)
    assert (arm.allow_groups, arm.deny_accounts) == (("teaching", "staff"), ("guests",))
    assert (arm.max_minutes, wide.max_minutes, wide.min_nodes) == (90, 36 * 60, 2)
    assert old.state == "INACTIVE"


def test_ten_thousand_nodes():
    line = recorded("22.05-nodes").splitlines()[0]
    text = "\n".join(line.replace("fat1", f"n{number:05d}") for number in range(10_000))
    found = parse_nodes(text)
    assert len({node.name for node in found}) == 10_000
    assert fold(node.name for node in found) == "n[00000-09999]"


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
    assert fields.minutes(text) == expected


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        (["mil1", "ice2", "ice1"], "ice[1-2],mil1"),
        (["n8", "n9", "n10", "n12"], "n[8-10,12]"),
        (["n008", "n009", "n010", "n100"], "n[008-010,100]"),
        (["n01", "n1"], "n01,n1"),
        ([f"n{number}" for number in range(1, 99, 2)], "n[1,3,…] (49 nodes)"),
        (["login", "n1"], "login,n1"),
        ([f"rack{letter}" for letter in "abcdefgh"], "racka,rackb … and 6 more"),
        ([], ""),
    ],
)
def test_names_are_folded(names, folded):
    assert fold(names, groups=2) == folded


def test_associations():
    text = "physics||normal,long\nchem|gpu|gpu\n\nbroken line\n"
    assert parse_associations(text) == (
        Association("physics", None, ("normal", "long")),
        Association("chem", "gpu", ("gpu",)),
    )


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        *((None, (False, False)), ("none", (False, False)), ("nojobs,nosteps", (False, False))),
        *(("associations,limits", (True, False)), ("limits,qos,safe", (True, True))),
        ("ALL", (True, True)),
    ],
)
def test_what_is_enforced(setting, expected):
    assert enforced(setting) == expected


CONFIG = """
Configuration data as of 2026-11-30T16:00:00
AccountingStorageEnforce = {enforce}
AccountingStorageUser   = N/A
ClusterName             = toy
Empty                   =
Next                    = x
"""


def test_settings():
    config = CONFIG.format(enforce="associations,qos")
    assert setting(config, "AccountingStorageEnforce") == "associations,qos"
    assert setting(config, "Empty") is None
    assert setting(config, "Cluster") is None


def cluster(monkeypatch, folder, enforce, sacctmgr):
    """SLURM's commands as test doubles that answer what was recorded."""
    for name in ("22.05-nodes", "22.05-partitions"):
        shutil.copy(RECORDED / f"{name}.txt", folder)
    (folder / "config.txt").write_text(CONFIG.format(enforce=enforce))
    command(
        monkeypatch,
        folder,
        "scontrol",
        f'case "$*" in *partition) cat {folder}/22.05-partitions.txt;; '
        f"*node) cat {folder}/22.05-nodes.txt;; *config) cat {folder}/config.txt;; esac",
    )
    command(monkeypatch, folder, "sacctmgr", sacctmgr)


def test_the_site_is_read(monkeypatch, tmp_path):
    cluster(monkeypatch, tmp_path, "associations,qos", 'echo "$*" > $0.asked; echo "physics||long"')
    site = read()
    assert site.problem is None
    assert site.default_partition is not None
    assert site.default_partition.name == "cpu"
    assert len(site.nodes) == 5
    assert site.associations == (Association("physics", None, ("long",)),)
    assert site.qos_enforced
    asked = (tmp_path / "sacctmgr.asked").read_text()
    assert " cluster=toy " in asked
    assert " user=" in asked


@pytest.mark.parametrize(
    ("enforce", "sacctmgr"),
    [("none", "echo 'physics||long'"), ("associations", "echo down >&2; exit 1")],
)
def test_accounts_are_unknown(monkeypatch, tmp_path, enforce, sacctmgr):
    cluster(monkeypatch, tmp_path, enforce, sacctmgr)
    site = read()
    assert site.problem is None
    assert site.associations == ()


def test_no_slurm(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert read().problem == "'scontrol' is not installed here (not found in PATH)"


def test_the_controller_does_not_answer(monkeypatch, tmp_path):
    command(monkeypatch, tmp_path, "scontrol", "exec sleep 60")
    site = read(limit_s=0.2)
    assert site.problem == ("'scontrol --all -o show partition' did not answer within 0.2 s")
    command(monkeypatch, tmp_path, "scontrol", "echo 'No partitions in the system'")
    assert "named no partition" in (read().problem or "")
