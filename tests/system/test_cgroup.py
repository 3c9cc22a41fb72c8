"""Limits of control groups, of both versions, nested, in containers, and of this process."""

from __future__ import annotations

import pytest

from gemmgrid.system import cgroup
from tests.measure import machine_trees as trees

V2_MOUNT = "29 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate"
GIB = 1 << 30


def v2(root, group, mount=V2_MOUNT):
    trees.write(root, "proc/self/cgroup", f"0::{group}")
    trees.write(root, "proc/self/mountinfo", f"22 27 0:21 / /proc rw - proc proc rw\n{mount}")


def v1(root, group="/slurm/uid_1000/job_7/step_0", start="/"):
    trees.write(
        root,
        "proc/self/cgroup",
        f"9:name=systemd:/\n4:memory:{group}\n2:cpu,cpuacct:{group}\n0::/",
    )
    trees.write(
        root,
        "proc/self/mountinfo",
        f"32 31 0:29 {start} /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
        f"35 31 0:32 {start} /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw",
    )


def test_the_tightest_level_counts(tmp_path):
    v2(tmp_path, "/slurm/job_1/step_0")
    base = "sys/fs/cgroup"
    trees.write(tmp_path, f"{base}/slurm/cpu.max", "max 100000")
    trees.write(tmp_path, f"{base}/slurm/job_1/cpu.max", "150000 100000")
    trees.write(tmp_path, f"{base}/slurm/job_1/step_0/cpu.max", "400000 100000")
    trees.write(
        tmp_path,
        f"{base}/slurm/job_1/step_0/cpu.stat",
        "usage_usec 9\nnr_periods 40\nnr_throttled 3\nthrottled_usec 2500000",
    )
    trees.write(tmp_path, f"{base}/slurm/job_1/memory.max", 8 * GIB)
    trees.write(tmp_path, f"{base}/slurm/job_1/memory.current", 5 * GIB)
    trees.write(
        tmp_path,
        f"{base}/slurm/job_1/memory.stat",
        f"anon 7\ninactive_file {GIB}\nactive_file {GIB}\nshmem 9",
    )
    trees.write(tmp_path, f"{base}/slurm/job_1/step_0/memory.max", "max")
    trees.write(
        tmp_path,
        f"{base}/slurm/job_1/step_0/memory.events",
        "low 0\nhigh 0\nmax 9\noom 2\noom_kill 1",
    )
    limits = cgroup.read(tmp_path)
    assert limits == cgroup.Limits(
        cpus=1.5,
        memory_bytes=8 * GIB,
        memory_available_bytes=5 * GIB,
        periods=40,
        throttled_periods=3,
        throttled_s=2.5,
        oom_kills=1,
    )


def test_memory_high_is_a_limit_too(tmp_path):
    v2(tmp_path, "/a")
    trees.write(tmp_path, "sys/fs/cgroup/a/memory.max", 4 * GIB)
    trees.write(tmp_path, "sys/fs/cgroup/a/memory.high", 3 * GIB)
    trees.write(tmp_path, "sys/fs/cgroup/a/memory.current", 1 * GIB)
    assert cgroup.read(tmp_path).memory_available_bytes == 2 * GIB


def test_version_1_beside_an_empty_version_2(tmp_path):
    v1(tmp_path)
    cpu = "sys/fs/cgroup/cpu,cpuacct/slurm"
    trees.write(tmp_path, f"{cpu}/cpu.cfs_quota_us", 300000)
    trees.write(tmp_path, f"{cpu}/cpu.cfs_period_us", 100000)
    step = f"{cpu}/uid_1000/job_7/step_0"
    trees.write(tmp_path, f"{step}/cpu.cfs_quota_us", -1)
    trees.write(tmp_path, f"{step}/cpu.cfs_period_us", 100000)
    trees.write(
        tmp_path, f"{step}/cpu.stat", "nr_periods 8\nnr_throttled 4\nthrottled_time 1500000000"
    )
    memory = "sys/fs/cgroup/memory/slurm/uid_1000/job_7"
    trees.write(tmp_path, f"{memory}/memory.limit_in_bytes", 2 * GIB)
    trees.write(tmp_path, f"{memory}/memory.usage_in_bytes", 2 * GIB)
    trees.write(
        tmp_path,
        f"{memory}/memory.stat",
        f"inactive_file 1\ntotal_inactive_file {GIB}\ntotal_active_file 0",
    )
    trees.write(tmp_path, f"{memory}/step_0/memory.limit_in_bytes", 9223372036854771712)
    trees.write(
        tmp_path,
        f"{memory}/step_0/memory.oom_control",
        "oom_kill_disable 0\nunder_oom 0\noom_kill 5",
    )
    limits = cgroup.read(tmp_path)
    assert (limits.cpus, limits.throttled_s) == (3.0, 1.5)
    assert limits.memory_available_bytes == GIB
    assert limits.oom_kills == cgroup.oom_kills(tmp_path) == 5


def test_a_container_that_sees_only_its_own_part(tmp_path):
    v1(tmp_path, group="/docker/abc", start="/docker/abc")
    trees.write(tmp_path, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", 50000)
    trees.write(tmp_path, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", 100000)
    assert cgroup.read(tmp_path).cpus == 0.5


def test_a_container_with_a_name_space_of_its_own(tmp_path):
    v2(tmp_path, "/")
    trees.write(tmp_path, "sys/fs/cgroup/cpu.max", "200000 100000")
    assert cgroup.read(tmp_path).cpus == 2.0


def test_no_control_groups(tmp_path):
    assert cgroup.read(tmp_path) == cgroup.Limits()
    assert cgroup.available_bytes(tmp_path) is None
    assert cgroup.oom_kills(tmp_path) is None


@pytest.mark.parametrize("content", ["", "max", "100000", "x y", "0 100000", "-1 100000", "5 0"])
def test_odd_quotas_are_none(tmp_path, content):
    v2(tmp_path, "/")
    trees.write(tmp_path, "sys/fs/cgroup/cpu.max", content)
    assert cgroup.read(tmp_path).cpus is None


def test_available_is_the_less_of_machine_and_group(tmp_path):
    v2(tmp_path, "/")
    trees.write(tmp_path, "proc/meminfo", f"MemAvailable: {4 * GIB // 1024} kB")
    assert cgroup.available_bytes(tmp_path) == 4 * GIB
    trees.write(tmp_path, "sys/fs/cgroup/memory.max", 3 * GIB)
    trees.write(tmp_path, "sys/fs/cgroup/memory.current", 1 * GIB)
    assert cgroup.available_bytes(tmp_path) == 2 * GIB


def test_the_machines_counter_stands_in_for_the_groups(tmp_path):
    trees.write(tmp_path, "proc/vmstat", "nr_free_pages 5\noom_kill 2")
    assert cgroup.oom_kills(tmp_path) == 2


def test_this_process():
    free = cgroup.available_bytes()
    assert free is not None
    assert free > 0
    limits = cgroup.read()
    assert limits.cpus is None or limits.cpus > 0
