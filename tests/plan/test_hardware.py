"""The machine's own name, and how many CPUs may be used, from trees like those of real systems."""

from __future__ import annotations

import os
import socket

import pytest

from gemmgrid.plan import hardware
from gemmgrid.plan.config.machines import local_target
from gemmgrid.records.names import name_problem
from gemmgrid.system import cpus


@pytest.mark.parametrize(
    ("cpu", "cores", "gpu", "name"),
    [
        ("AMD EPYC", 2, None, "amd-epyc-2c"),
        ("AMD EPYC 7763 64-Core Processor", 64, None, "amd-epyc-7763-64c"),
        ("AMD Ryzen 9 7950X 16-Core Processor", 16, "NVIDIA GeForce RTX 4090",
         "amd-ryzen-9-7950x-16c-rtx-4090"),
        ("AMD Ryzen 7 5800H with Radeon Graphics", 8, None, "amd-ryzen-7-5800h-8c"),
        ("Intel(R) Xeon(R) Platinum 8488C", 8, "NVIDIA H200", "intel-xeon-8488c-8c-h200"),
        ("Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz", 28, "Tesla T4",
         "intel-xeon-e5-2680-v4-28c-tesla-t4"),
        ("13th Gen Intel(R) Core(TM) i7-1360P", 12, None, "intel-core-i7-1360p-12c"),
        ("Apple M2 Max", 12, None, "apple-m2-max-12c"),
        ("Arm Neoverse V2", 72, "NVIDIA GH200 480GB", "arm-neoverse-v2-72c-gh200-480gb"),
        ("(R) CPU @ 2", 4, None, "unknown-4c"),
    ],
)  # fmt: skip
def test_names_of_machines(cpu, cores, gpu, name):
    assert hardware.compose_name(cpu, cores, gpu) == name
    assert name_problem(name) is None


def test_a_very_long_model_still_makes_a_name():
    name = hardware.compose_name("Model " * 30, 128, "GPU " * 30)
    assert len(name) <= 64 and name_problem(name) is None


def test_models_in_cpuinfo():
    x86 = "processor\t: 0\nvendor_id\t: X\nmodel name\t: AMD EPYC 9654\n\n" * 2
    assert hardware.model_in_cpuinfo(x86) == "AMD EPYC 9654"
    arm = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n\n"
    assert hardware.model_in_cpuinfo(arm) == "Arm Neoverse V1"
    assert hardware.model_in_cpuinfo(arm.replace("0xd40", "0xfff")) == "arm-0x41-0xfff"
    assert hardware.model_in_cpuinfo("processor\t: 0\ncpu\t: POWER9\n") == "POWER9"
    assert hardware.model_in_cpuinfo("") is None


def test_the_gpu_is_read_from_the_drivers_files(tmp_path, monkeypatch):
    monkeypatch.setattr(hardware, "NVIDIA", tmp_path / "nvidia")
    monkeypatch.setattr(hardware, "NVIDIA_CONTROL", tmp_path / "nvidiactl")
    assert hardware.has_cuda() is False and hardware.gpu_model() is None
    folder = tmp_path / "nvidia/gpus/0000:01:00.0"
    folder.mkdir(parents=True)
    (folder / "information").write_text("Model: \t\t NVIDIA H200\nIRQ: 4\n")
    assert hardware.has_cuda() is True and hardware.gpu_model() == "NVIDIA H200"


def test_this_machine_has_a_usable_name_that_is_not_its_hosts():
    name = local_target().name
    assert name_problem(name) is None
    assert socket.gethostname().casefold() not in name
    assert local_target() == local_target()
    assert local_target("my-own").name == "my-own"


def topology(root, cores, **changes):
    """A /sys of CPUs with one folder each: (package, core)."""
    for cpu, (package, core) in enumerate(cores):
        folder = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
        folder.mkdir(parents=True)
        (folder / "physical_package_id").write_text(f"{package}\n")
        (folder / "core_id").write_text(f"{core}\n")
        if "die" in changes:
            (folder / "die_id").write_text(f"{changes['die'][cpu]}\n")
    return root


def test_physical_cores(tmp_path):
    smt = topology(tmp_path / "smt", [(0, 0), (0, 1), (0, 0), (0, 1), (1, 0), (1, 1)])
    assert cpus.cores_among(range(6), smt) == 4
    assert cpus.cores_among([0, 2], smt) == 1
    dies = topology(tmp_path / "dies", [(0, 0), (0, 0)], die=[0, 1])
    assert cpus.cores_among(range(2), dies) == 2
    assert cpus.cores_among([0, 1, 2], tmp_path / "nothing") == 3


def test_a_quota_counts_in_whole_cpus(monkeypatch):
    for limit, whole in ((None, None), (2.5, 2), (0.5, 1)):
        monkeypatch.setattr(cpus.cgroup, "cpu_quota", lambda limit=limit: limit)
        assert cpus.quota() == whole
    assert cpus.usable() == cpus.usable_cores() == 1


def test_usable_cpus_follow_the_affinity():
    every = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    if every is None:
        pytest.skip("hardware: an Apple system has no CPU affinity")
    try:
        os.sched_setaffinity(0, {min(every)})
        assert cpus.usable() == cpus.usable_cores() == 1
        target = local_target()
        assert target.thread_counts(("all", "physical", "doubling")) == [1]
    finally:
        os.sched_setaffinity(0, every)
    assert 1 <= cpus.usable_cores() <= cpus.usable() <= len(every)
