"""The test cluster as SLURM's configuration files: nodes, partitions, loopback only."""

from __future__ import annotations

from pathlib import Path

NAME = "gemmgrid-test"
DATABASE_PORT, CONTROLLER_PORT, ACCOUNTING_PORT, FIRST_PORT = 26806, 26817, 26819, 26821
PASSWORD = "test"

NODES = {
    "ice1": "Feature=icelake,avx512",
    "ice2": "Feature=icelake,avx512,second",
    "mil1": "Feature=milan",
    "gpu1": "Feature=milan,h200 Gres=gpu:h200:1",
    # More CPUs than this host has: a node that is not what it promises.
    "fat1": "Feature=fat CPUs=64 Sockets=2 CoresPerSocket=16 ThreadsPerCore=2",
}
"""Each node by its name, and what sets it apart. All of them are this host."""

PARTITIONS = (
    "PartitionName=DEFAULT DefaultTime=10 MaxTime=60 State=UP",
    "PartitionName=cpu Nodes=ice1,ice2,mil1 Default=YES PreemptMode=OFF",
    "PartitionName=gpu Nodes=gpu1 PreemptMode=OFF",
    "PartitionName=fat Nodes=fat1 PreemptMode=OFF",
    # Jobs of `spare` are ended, those of `again` requeued, when one of `urgent` wants their node.
    "PartitionName=spare Nodes=mil1 PriorityTier=1 PreemptMode=CANCEL",
    "PartitionName=again Nodes=mil1 PriorityTier=1 PreemptMode=REQUEUE",
    "PartitionName=urgent Nodes=mil1 PriorityTier=9 PreemptMode=OFF",
    "PartitionName=closed Nodes=ice1 State=DOWN PreemptMode=OFF",
)


def slurm_conf(base: Path, cgroups: bool) -> str:
    """slurm.conf; without writable control groups SLURM watches memory by polling."""
    if cgroups:
        watching = [
            "ProctrackType=proctrack/cgroup",
            "TaskPlugin=task/cgroup,task/affinity",
            "JobAcctGatherType=jobacct_gather/cgroup",
        ]
    else:
        watching = [
            "ProctrackType=proctrack/linuxproc",
            "TaskPlugin=task/affinity",
            "JobAcctGatherType=jobacct_gather/linux",
            "JobAcctGatherParams=OverMemoryKill,UsePss",
        ]
    default = "CPUs=2 Sockets=1 CoresPerSocket=2 ThreadsPerCore=1 RealMemory=5000 State=UNKNOWN"
    nodes = [
        f"NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={FIRST_PORT + at} {own}"
        for at, (name, own) in enumerate(NODES.items())
    ]
    return "\n".join(
        [
            f"ClusterName={NAME}",
            "SlurmctldHost=localhost(127.0.0.1)",
            f"SlurmctldPort={CONTROLLER_PORT}",
            "SrunPortRange=26900-26999",
            "CommunicationParameters=NoCtldInAddrAny,NoInAddrAny",
            *("SlurmUser=root", "SlurmdUser=root", "AuthType=auth/munge", "CredType=cred/munge"),
            f"StateSaveLocation={base}/state",
            f"SlurmdSpoolDir={base}/spool/%n",
            f"SlurmctldPidFile={base}/run/slurmctld.pid",
            f"SlurmdPidFile={base}/run/slurmd-%n.pid",
            f"SlurmctldLogFile={base}/log/slurmctld.log",
            f"SlurmdLogFile={base}/log/slurmd-%n.log",
            *watching,
            "JobAcctGatherFrequency=task=1",
            "SelectType=select/cons_tres",
            "SelectTypeParameters=CR_Core_Memory",
            "SchedulerParameters=bf_interval=2,sched_interval=5",
            "PreemptType=preempt/partition_prio",
            "PreemptMode=REQUEUE",
            *("ReturnToService=2", "MinJobAge=3600", "KillWait=2", "MpiDefault=none"),
            *("SlurmdTimeout=30", "MailProg=/bin/true", "GresTypes=gpu"),
            "AccountingStorageType=accounting_storage/slurmdbd",
            "AccountingStorageHost=127.0.0.1",
            f"AccountingStoragePort={ACCOUNTING_PORT}",
            "AccountingStorageTRES=gres/gpu",
            "AccountingStorageEnforce=associations",
            "AccountingStoreFlags=job_comment",
            "SlurmdParameters=config_overrides",
            f"NodeName=DEFAULT {default}",
            *nodes,
            *PARTITIONS,
            "",
        ]
    )


def cgroup_conf() -> str:
    return "\n".join(
        [
            "CgroupPlugin=cgroup/v1",
            "CgroupMountpoint=/sys/fs/cgroup",
            "CgroupAutomount=no",
            "ConstrainCores=yes",
            "ConstrainRAMSpace=yes",
            "ConstrainSwapSpace=no",
            "ConstrainDevices=no",
            "",
        ]
    )


def gres_conf() -> str:
    return "NodeName=gpu1 Name=gpu Type=h200 Count=1 File=/dev/null\n"


def slurmdbd_conf(base: Path) -> str:
    return "\n".join(
        [
            *("AuthType=auth/munge", "DbdHost=localhost", "DbdAddr=127.0.0.1"),
            f"DbdPort={ACCOUNTING_PORT}",
            "CommunicationParameters=NoInAddrAny,NoCtldInAddrAny",
            "SlurmUser=root",
            f"PidFile={base}/run/slurmdbd.pid",
            f"LogFile={base}/log/slurmdbd.log",
            *("StorageType=accounting_storage/mysql", "StorageHost=127.0.0.1"),
            f"StoragePort={DATABASE_PORT}",
            *("StorageUser=slurm", f"StoragePass={PASSWORD}", "StorageLoc=slurm_acct_db"),
            "",
        ]
    )
