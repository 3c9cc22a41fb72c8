"""What a job tells of itself, from what `scontrol` of several versions prints.

The lines of 22.05 were recorded (host names and paths shortened); those of 23.11 and 24.05 have
the fields of these versions.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from gemmgrid.measure.node import slurm
from tests.plan.slurm.doubles import command

SCHEMA = yaml.safe_load(
    (Path(__file__).parents[3] / "workflow/schemas/run.schema.yaml").read_text(encoding="utf-8")
)
VARIABLES = {
    "SLURM_JOB_ID": "9",
    "SLURMD_NODENAME": "ice1",
    "SLURM_JOB_PARTITION": "cpu",
    "SLURM_CLUSTER_NAME": "toy",
}
JOB_22 = (
    "JobId=9 JobName=gemmgrid_e1a2f2b8-1703-4521-a1aa-560b0a09d2fa UserId=root(0) GroupId=root(0) "
    "MCS_label=N/A Priority=4294901751 Nice=0 Account=physics QOS=normal JobState=RUNNING "
    "Reason=None Dependency=(null) Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0 "
    "RunTime=00:00:05 TimeLimit=00:12:00 TimeMin=N/A SubmitTime=2026-11-30T17:01:49 "
    "SuspendTime=None SecsPreSuspend=0 Partition=cpu AllocNode:Sid=localhost:16866 "
    "ReqNodeList=(null) ExcNodeList=(null) NodeList=ice1 BatchHost=ice1 NumNodes=1 NumCPUs=2 "
    "NumTasks=1 CPUs/Task=2 ReqB:S:C:T=0:0:*:* TRES=cpu=2,mem=1856M,node=1,billing=2 "
    "Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=* MinCPUsNode=2 MinMemoryNode=1856M "
    "MinTmpDiskNode=0 Features=icelake DelayBoot=00:00:00 OverSubscribe=NO Contiguous=0 "
    "Licenses=(null) Network=(null) Command=/dev/stdin WorkDir=/home/me/a folder "
    "Comment=rule_ice.1_measure_numpy-openblas  StdErr=/home/me/9.log StdIn=/dev/null "
    "StdOut=/home/me/9.log Power= \n"
)
NODE_22 = (
    "NodeName=ice1 Arch=x86_64 CoresPerSocket=2  CPUAlloc=2 CPUEfctv=2 CPUTot=2 CPULoad=1.06 "
    "AvailableFeatures=icelake,avx512 ActiveFeatures=icelake,avx512 Gres=(null) "
    "NodeAddr=127.0.0.1 NodeHostName=localhost Port=26821 Version=22.05.8 "
    "OS=Linux 6.18.44 #1 SMP PREEMPT_DYNAMIC @0  RealMemory=5000 AllocMem=1856 FreeMem=21057 "
    "Sockets=1 Boards=1 State=ALLOCATED ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A "
    "MCS_label=N/A Partitions=cpu,closed  BootTime=2026-11-30T13:22:12 "
    "CfgTRES=cpu=2,mem=5000M,billing=2 AllocTRES=cpu=2,mem=1856M CapWatts=n/a CurrentWatts=0 "
    "ExtSensorsTemp=n/s Reason=slow disk CPUTot=99 [root@2026-11-30T17:02:11]\n"
)
JOB_23 = (
    "JobId=9 JobName=gemmgrid_1 UserId=me(1001) GroupId=me(1001) MCS_label=N/A Priority=1 Nice=0 "
    "Account=(null) QOS=long JobState=RUNNING Reason=None Dependency=(null) Requeue=1 Restarts=2 "
    "BatchFlag=1 Partition=gpu NodeList=gpu1 BatchHost=gpu1 NumNodes=1 NumCPUs=64 NumTasks=1 "
    "CPUs/Task=64 ReqB:S:C:T=0:0:*:* ReqTRES=cpu=64,mem=90000M,node=1,billing=64,gres/gpu=1 "
    "AllocTRES=cpu=64,mem=1.50G,node=1,billing=64,gres/gpu=1,gres/gpu:h200=1 Socks/Node=* "
    "NtasksPerN:B:S:C=0:0:*:* CoreSpec=* MinCPUsNode=64 MinMemoryNode=90000M Features=(null) "
    "DelayBoot=00:00:00 OverSubscribe=OK Contiguous=0 Licenses=(null) Network=(null) "
    "Command=/dev/stdin WorkDir=/home/me Comment=what NumCPUs=1 OverSubscribe=NO means "
    "StdErr=/home/me/9.log StdIn=/dev/null StdOut=/home/me/9.log TresPerNode=gres/gpu:h200:1 "
    "TresPerTask=cpu=64 \n"
)
NODE_24 = (
    "NodeName=gpu1 Arch=x86_64 CoresPerSocket=64  CPUAlloc=64 CPUEfctv=124 CPUTot=128 CPULoad=3.1 "
    "AvailableFeatures=(null) ActiveFeatures=(null) Gres=gpu:h200:8(S:0-1) NodeAddr=gpu1 "
    "NodeHostName=gpu1 Version=24.05.4 OS=Linux 5.14.0-427.el9.x86_64 #1 SMP PREEMPT_DYNAMIC Fri "
    "May 31 RealMemory=2000000 Sockets=2 State=MIXED ThreadsPerCore=1 Partitions=gpu \n"
)


def answers(job: str | None, node: str | None):
    """A test double of the controller: these lines, or a reason where there is none."""

    def ask(kind, name):
        line = {"job": job, "node": node}[kind]
        return ({}, f"no {kind} {name}") if line is None else (slurm.fields(line), None)

    return ask


def described(job=JOB_22, node=NODE_22, **variables):
    found = slurm.describe({**VARIABLES, **variables}, answers(job, node))
    part = SCHEMA["properties"]["slurm"] | {"$defs": SCHEMA["$defs"]}
    assert [error.message for error in Draft202012Validator(part).iter_errors(found)] == []
    json.dumps(found, allow_nan=False)
    unknown = {key for key, value in found.items() if value is None} - {"gres"}
    assert unknown <= found["unknown"].keys()
    assert all(found[key] is None and why for key, why in found["unknown"].items())
    return found


def test_outside_slurm_there_is_nothing():
    assert slurm.describe({}, answers(JOB_22, NODE_22)) is None
    assert slurm.job_id({"SLURM_JOB_ID": ""}) is None
    assert slurm.job_id({"SLURM_JOB_ID": "9"}) == "9"


def test_a_job_of_its_own_node_on_22_05():
    found = described()
    assert (
        found.items()
        >= {
            "job_id": "9",
            "node": "ice1",
            "partition": "cpu",
            "features": ["icelake", "avx512"],
            "cluster": "toy",
            "account": "physics",
            "qos": "normal",
            "exclusive": True,
            "cpus_on_node": 2,
            "cpus_allocated": 2,
            "memory_mb": 1856,
            "gres": None,
            "restarts": 0,
        }.items()
    )
    assert set(found["unknown"]) <= {"memory_limit_bytes"}


def test_a_part_of_a_gpu_node_on_24_05():
    found = described(JOB_23, NODE_24, SLURMD_NODENAME="gpu1", SLURM_JOB_PARTITION="")
    assert (
        found.items()
        >= {
            "node": "gpu1",
            "partition": "gpu",
            "features": [],
            "account": None,
            "qos": "long",
            "exclusive": False,
            "cpus_on_node": 128,
            "cpus_allocated": 64,
            "memory_mb": 1536,
            "gres": "gpu:h200:1",
            "restarts": 2,
        }.items()
    )
    assert found["unknown"]["account"] == "SLURM does not tell it"


def test_values_with_spaces_and_texts_that_look_like_fields():
    node = slurm.fields(NODE_22)
    assert node["OS"] == "Linux 6.18.44 #1 SMP PREEMPT_DYNAMIC @0"
    assert (node["CPUTot"], node["RealMemory"], node["Partitions"]) == ("2", "5000", "cpu,closed")
    assert node["AllocTRES"] == "cpu=2,mem=1856M"
    job = slurm.fields(JOB_23)
    assert (job["NumCPUs"], job["OverSubscribe"]) == ("64", "OK")
    assert (job["CPUs/Task"], job["Comment"]) == ("64", "what")
    job = slurm.fields(JOB_22)
    assert (job["WorkDir"], job["AllocNode:Sid"]) == ("/home/me/a folder", "localhost:16866")
    assert job["ReqB:S:C:T"] == "0:0:*:*"
    assert not {"Dependency", "MCS_label", "Power", "Gres"} & {*job, *node}
    assert slurm.fields("") == slurm.fields("\n") == {}


@pytest.mark.parametrize(
    ("oversubscribe", "allocated", "total", "usable", "exclusive"),
    [
        # squeue's manual: NO if the job has the node alone, whatever it asked for of it.
        ("NO", 2, 64, 64, True),
        ("NO", 64, 64, 64, True),
        # OK: CPUs of its own. Alone then is who has them all, as with select/linear.
        ("OK", 64, 64, 64, True),
        ("OK", 62, 64, 62, True),  # two are the system's
        ("OK", 62, 64, 64, False),
        ("OK", 2, 64, 64, False),
        # YES: others may be given the same CPUs.
        ("YES", 64, 64, 64, False),
        ("YES", 2, 64, 64, False),
        # Dedicated to a user, a label or a topology: others of the same kind fit beside it.
        ("USER", 2, 64, 64, False),
        ("MCS", 2, 64, 64, False),
        ("TOPO", 2, 64, 64, False),
        # All CPUs are the job's; whether they are given twice, SLURM does not tell here.
        ("USER", 64, 64, 64, None),
        ("MCS", 64, 64, 64, None),
        ("(null)", 64, 64, 64, None),
    ],
)
def test_alone_on_the_node(oversubscribe, allocated, total, usable, exclusive):
    job = JOB_22.replace("OverSubscribe=NO", f"OverSubscribe={oversubscribe}")
    job = job.replace("NumCPUs=2", f"NumCPUs={allocated}")
    node = NODE_22.replace("CPUEfctv=2", f"CPUEfctv={usable}")
    node = node.replace(" CPUTot=2 ", f" CPUTot={total} ")
    found = described(job, node)
    assert found["exclusive"] is exclusive
    assert (found["cpus_allocated"], found["cpus_on_node"]) == (allocated, total)


def test_before_22_05_a_node_does_not_tell_its_usable_cpus():
    job = JOB_22.replace("OverSubscribe=NO", "OverSubscribe=OK")
    assert described(job, NODE_22.replace("CPUEfctv=2 ", ""))["exclusive"] is True


@pytest.mark.parametrize(
    ("text", "gres"),
    [
        ("TresPerNode=gres:gpu:h200:1", "gpu:h200:1"),  # 22.05
        ("TresPerNode=gres/gpu:h200:1", "gpu:h200:1"),
        ("TresPerNode=gpu:1", None),
        ("TresPerNode=gres/gpu:2,gres/nvme:1", "gpu:2,nvme:1"),
        ("TresPerJob=gres/gpu:4", "gpu:4"),  # --gpus
        ("TresPerTask=cpu=2,gres/gpu:1", "gpu:1"),
        ("TresPerTask=cpu=2", None),
        ("TresPerNode=(null)", None),
    ],
)
def test_generic_resources(text, gres):
    found = described(JOB_22.replace("Power=", f"{text} Power="))
    assert found["gres"] == gres
    assert "gres" not in found["unknown"]


@pytest.mark.parametrize(
    ("resources", "megabytes"),
    [
        ("TRES=cpu=2,mem=5000M,node=1", 5000),
        ("TRES=cpu=2,mem=2G", 2048),
        ("TRES=cpu=2,mem=1.50T,gres/gpu=1", 1572864),
        ("TRES=cpu=2,mem=512000K", 500),
        ("TRES=cpu=2,mem=700", 700),
        ("TRES=cpu=2,node=1,gres/gpumem=80G", None),
        ("TRES=(null)", None),
        ("AllocTRES=(null) TRES=cpu=2,mem=9M", 9),
    ],
)
def test_memory(resources, megabytes):
    job = JOB_22.replace("TRES=cpu=2,mem=1856M,node=1,billing=2", resources)
    assert described(job)["memory_mb"] == megabytes


def test_a_job_over_several_nodes_does_not_take_their_cpus_for_this_ones():
    job = JOB_22.replace("NumNodes=1", "NumNodes=2").replace("NumCPUs=2", "NumCPUs=4")
    found = described(job.replace("OverSubscribe=NO", "OverSubscribe=OK"))
    assert (found["exclusive"], found["cpus_allocated"], found["memory_mb"]) == (None, None, None)
    assert found["unknown"]["exclusive"] == "the job has several nodes"
    assert described(job)["exclusive"] is True


def test_a_job_that_the_controller_does_not_know():
    found = described(job=None)
    assert found["cpus_on_node"] == 2
    assert (found["exclusive"], found["partition"]) == (None, "cpu")
    for key in ("account", "qos", "exclusive", "cpus_allocated", "memory_mb", "gres", "restarts"):
        assert found["unknown"][key] == "no job 9"


def test_a_node_that_the_controller_does_not_know():
    found = described(JOB_22.replace("OverSubscribe=NO", "OverSubscribe=OK"), None)
    assert found["features"] is None
    for key in ("features", "cpus_on_node", "exclusive"):
        assert found["unknown"][key] == "no node ice1"


def test_a_job_that_does_not_know_its_node():
    found = slurm.describe({"SLURM_JOB_ID": "9"}, answers(JOB_22, NODE_22))
    assert (found["node"], found["features"], found["cluster"]) == (None, None, None)
    assert found["unknown"]["features"] == "SLURM does not name the node"


def test_this_process_tells_where_it_may_run():
    found = described()
    assert found["affinity"] == sorted(os.sched_getaffinity(0))


@pytest.fixture(autouse=True)
def memory(monkeypatch):
    """No other test's answers, and none for other tests."""
    monkeypatch.setattr(slurm, "_TOLD", {})


@pytest.fixture
def scontrol(monkeypatch, tmp_path):
    return lambda body: command(monkeypatch, tmp_path, "scontrol", body)


def test_the_controller_is_asked(scontrol):
    scontrol('echo "JobId=9 Asked=$*"')
    assert slurm.ask_controller("job", "9") == (
        {"JobId": "9", "Asked": "-o show job 9"},
        None,
    )


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (
            "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1",
            "scontrol: slurm_load_jobs error: Invalid job id specified",
        ),
        ("exit 1", "scontrol: no message"),
        (
            "echo trying >&2; echo 'Unable to contact slurm controller' >&2; exit 1",
            "scontrol: Unable to contact slurm controller",
        ),
    ],
)
def test_a_controller_that_fails_is_a_reason(scontrol, body, why):
    scontrol(body)
    assert slurm.ask_controller("job", "9") == ({}, why)
    found = slurm.describe(VARIABLES)
    assert found["unknown"]["account"] == why
    assert found["node"] == "ice1"


def test_a_controller_that_is_slow_is_a_reason(scontrol, monkeypatch):
    scontrol("exec sleep 60")
    monkeypatch.setattr(slurm, "PATIENCE_S", 0.2)
    assert slurm.ask_controller("job", "9") == ({}, "scontrol did not answer within 0.2 s")


def test_without_scontrol_there_is_a_reason(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert slurm.ask_controller("job", "9") == ({}, "there is no scontrol on this node")
    (tmp_path / "scontrol").write_bytes(b"\x7fELF of another machine")
    (tmp_path / "scontrol").chmod(0o755)
    fields, why = slurm.ask_controller("job", "9")
    assert fields == {}
    assert why.startswith("scontrol cannot be run: ")


def test_bytes_that_are_no_text_do_not_matter(scontrol):
    scontrol(r"printf 'JobId=9 Comment=caf\351 NumCPUs=2'")
    fields, why = slurm.ask_controller("job", "9")
    assert (fields["NumCPUs"], why) == ("2", None)


def test_the_job_script_on_standard_input_is_not_eaten(scontrol):
    scontrol("cat; echo JobId=9")
    reading, writing = os.pipe()
    os.write(writing, b"the rest of the script\n")
    os.close(writing)
    before = os.dup(0)
    os.dup2(reading, 0)
    try:
        assert slurm.ask_controller("job", "9") == ({"JobId": "9"}, None)
        assert os.read(0, 100) == b"the rest of the script\n"
    finally:
        os.dup2(before, 0)
        for one in (before, reading):
            os.close(one)


@pytest.fixture
def asked(scontrol, tmp_path):
    """A controller that knows job and node; returns what it was asked since the last time."""
    asked = tmp_path / "asked"
    (tmp_path / "job").write_text(JOB_22)
    (tmp_path / "node").write_text(NODE_22)
    scontrol(f'echo "$3 $4" >>{asked}; cat {tmp_path}/$3')

    def since() -> list[str]:
        lines = asked.read_text().splitlines() if asked.exists() else []
        asked.unlink(missing_ok=True)
        return lines

    return since


def test_the_controller_is_asked_once_for_all_cells_of_a_job(asked):
    first = slurm.describe(VARIABLES)
    assert first == described()
    assert asked() == ["job 9", "node ice1"]
    assert slurm.describe(VARIABLES) == first
    assert asked() == []


def test_what_changes_within_a_job_is_read_anew(asked, monkeypatch):
    slurm.describe(VARIABLES)
    monkeypatch.setattr(slurm, "affinity", lambda: [17])
    monkeypatch.setattr(slurm.cgroup, "read", lambda: slurm.cgroup.Limits(memory_bytes=1 << 30))
    found = slurm.describe(VARIABLES)
    assert (found["affinity"], found["memory_limit_bytes"]) == ([17], 1 << 30)


def test_a_failed_answer_is_asked_for_again(asked, tmp_path):
    (tmp_path / "node").unlink()
    assert slurm.describe(VARIABLES)["features"] is None
    assert asked() == ["job 9", "node ice1"]
    (tmp_path / "node").write_text(NODE_22)
    assert slurm.describe(VARIABLES)["features"] == ["icelake", "avx512"]
    assert asked() == ["node ice1"]
