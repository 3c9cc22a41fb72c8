"""Facts and identity of recorded machines, and of this one."""

from __future__ import annotations

import json
import os
import platform
import socket
import sys
from pathlib import Path

import pytest

from gemmgrid.measure import machine
from gemmgrid.measure.machine import apple, context, gpus, identity, system
from gemmgrid.measure.machine.topology import caches
from gemmgrid.records.identity import rounded_gib
from gemmgrid.system import arm, macos
from tests.measure import machine_trees as trees


def test_two_sockets_with_smt(tmp_path):
    facts = machine.facts(trees.sapphire_rapids(tmp_path), "x86_64")
    cpu = facts["cpu"]
    assert (cpu["vendor"], cpu["model"]) == ("GenuineIntel", "Intel(R) Xeon(R) Platinum 8480+")
    assert (cpu["family"], cpu["model_number"], cpu["stepping"]) == (6, 143, 8)
    assert (cpu["sockets"], cpu["cores"], cpu["logical"]) == (2, 8, 16)
    assert (cpu["smt"], cpu["threads_per_core"]) == (True, 2)
    assert (cpu["performance_cores"], cpu["efficiency_cores"]) == (8, 0)
    assert {"avx512f", "amx_bf16", "amx_tile", "avx512_fp16"} <= set(cpu["isa"])
    assert (cpu["max_mhz"], cpu["base_mhz"], cpu["clock_driver"]) == (3800, 2000, "intel_pstate")
    assert cpu["microcode"] == "0x2b000639"
    assert facts["numa"] == 2
    assert facts["memory_bytes"] == 526910464 * 1024
    assert facts["os"] == "Rocky Linux 9.4"
    assert facts["kernel"] == "5.14.0-427.el9.x86_64"
    assert facts["virtualisation"] == "none"


def test_caches_are_counted_once(tmp_path):
    found = caches(trees.sapphire_rapids(tmp_path), list(range(16)))
    by_kind = {(cache["level"], cache["type"]): cache for cache in found}
    assert len(by_kind) == 4
    assert by_kind[1, "data"]["size_bytes"] == 48 << 10
    assert (by_kind[2, "unified"]["shared_by"], by_kind[2, "unified"]["count"]) == (2, 8)
    last = by_kind[3, "unified"]
    assert (last["size_bytes"], last["shared_by"], last["count"]) == (105 << 20, 8, 2)


def test_smt_that_was_switched_off_is_still_a_property_of_the_machine(tmp_path):
    facts = machine.facts(trees.rome(tmp_path / "off"), "x86_64")
    cpu = facts["cpu"]
    assert (cpu["sockets"], cpu["cores"], cpu["logical"]) == (2, 8, 8)
    assert (cpu["smt"], cpu["threads_per_core"]) == (True, 1)
    assert facts["numa"] == 8
    assert cpu["base_mhz"] is None
    assert "cpu.base_mhz" in facts["unknown"]


def test_arm_names_come_from_numbers(tmp_path):
    facts = machine.facts(trees.graviton3(tmp_path), "aarch64")
    cpu = facts["cpu"]
    assert (cpu["vendor"], cpu["model"], cpu["stepping"]) == ("Arm", "Neoverse V1", "r1p1")
    assert (cpu["sockets"], cpu["cores"], cpu["smt"]) == (1, 4, False)
    assert {"asimd", "sve", "bf16", "i8mm", "svebf16"} <= set(cpu["isa"])
    assert facts["virtualisation"] == "ec2"
    assert facts["unknown"]["cpu.microcode"] == "this architecture has none"


def test_two_kinds_of_arm_cores():
    listing = "\n\n".join(
        f"processor : {cpu}\nCPU implementer : 0x41\nCPU architecture: 8\nCPU variant : 0x4\n"
        f"CPU part : {part}\nCPU revision : 1"
        for cpu, part in enumerate(["0xd05", "0xd05", "0xd0b", "0xabc"])
    )
    assert arm.model(listing)["model"] == "part 0xabc + Cortex-A55 + Cortex-A76"
    assert arm.model("")["model"] is None


def test_fast_and_slow_cores(tmp_path):
    cpu = machine.facts(trees.hybrid(tmp_path), "x86_64")["cpu"]
    assert (cpu["cores"], cpu["logical"]) == (6, 8)
    assert (cpu["performance_cores"], cpu["efficiency_cores"]) == (2, 4)


def test_an_empty_machine_is_unknown_not_zero(tmp_path):
    facts = machine.facts(tmp_path, "x86_64")
    assert facts["cpu"]["cores"] is None
    assert facts["memory_bytes"] is None
    assert facts["numa"] is None
    for key in ("cpu.cores", "cpu.model", "cpu.isa", "memory_bytes", "numa", "os", "kernel"):
        assert facts["unknown"][key]
    assert identity(facts)["host_id"]


def test_binary_files_do_not_raise(tmp_path):
    root = trees.sapphire_rapids(tmp_path)
    for path in ("proc/cpuinfo", "proc/meminfo", "proc/stat", "sys/devices/system/cpu/online"):
        (root / path).write_bytes(bytes(range(256)) * 4)
    facts = machine.facts(root, "x86_64")
    assert facts["memory_bytes"] is None
    json.dumps(facts)


@pytest.mark.parametrize(
    ("total_kb", "gib"),
    [
        (526910464, 512),
        (526110464, 512),
        (263855104, 256),
        (131457000, 128),
        (131072 * 1024, 128),
        (98494000, 96),
        (24684084, 24),
        (16242000, 16),
        (7903232, 8),
    ],
)
def test_memory_is_rounded_as_it_was_sold(total_kb, gib):
    assert rounded_gib(total_kb * 1024) == gib


def test_identity_ignores_what_an_update_changes(tmp_path):
    first = machine.facts(trees.sapphire_rapids(tmp_path / "a"), "x86_64")
    root = trees.sapphire_rapids(tmp_path / "b")
    trees.write(root, "proc/sys/kernel/osrelease", "6.12.0")
    trees.write(root, "etc/os-release", 'PRETTY_NAME="Another"')
    trees.write(root, "proc/meminfo", "MemTotal:       526110464 kB")
    listing = (root / "proc/cpuinfo").read_text().replace("0x2b000639", "0x2b000700")
    trees.write(root, "proc/cpuinfo", listing)
    trees.write(root, f"{trees.CPU}/intel_pstate/no_turbo", 1)
    second = machine.facts(root, "x86_64")
    assert identity(first) == identity(second)
    assert len(identity(first)["host_id"]) == 12


def test_identity_survives_switching_smt_off(tmp_path):
    root = trees.sapphire_rapids(tmp_path)
    on = identity(machine.facts(root, "x86_64"))
    trees.topology(root, [(core // 4, [core]) for core in range(8)])
    trees.write(root, f"{trees.CPU}/smt/control", "off")
    assert identity(machine.facts(root, "x86_64")) == on


@pytest.mark.parametrize(
    ("key", "value"),
    [("model", "another"), ("stepping", 7), ("sockets", 1), ("cores", 7), ("isa", ["avx2"])],
)
def test_identity_tells_kinds_of_machines_apart(tmp_path, key, value):
    facts = machine.facts(trees.sapphire_rapids(tmp_path), "x86_64")
    before = identity(facts)["host_id"]
    facts["cpu"][key] = value
    assert identity(facts)["host_id"] != before


def test_the_gpu_has_an_identity_of_its_own(tmp_path):
    facts = machine.facts(trees.sapphire_rapids(tmp_path), "x86_64")
    bare = identity(facts)
    card = {"name": "NVIDIA H200", "memory_bytes": 150_754_820_096, "compute_capability": "9.0"}
    facts["gpus"] = [{**card, "driver": "570.86", "mig": []}]
    old = identity(facts)
    facts["gpus"] = [{**card, "driver": "580.65", "mig": []}]
    new = identity(facts)
    assert bare["gpu_ids"] == []
    assert old["gpu_ids"] == new["gpu_ids"]
    assert old["host_id"] == bare["host_id"]
    facts["gpus"][0]["mig"] = ["NVIDIA H200 MIG 1g.18gb"]
    assert identity(facts)["gpu_ids"] != old["gpu_ids"]


def test_built_in_gpus_are_counted_whoever_may_use_them(tmp_path):
    root = trees.sapphire_rapids(tmp_path)
    assert machine.facts(root, "x86_64")["cards"] is None
    devices = {  # two GPUs, one of them with a virtual function, a BMC's display, a network card
        "0000:17:00.0": ("0x10de", "0x2335", "0x030200"),
        "0000:2a:00.0": ("0x10de", "0x2335", "0x030200"),
        "0000:2a:00.4": ("0x10de", "0x2335", "0x030200"),
        "0000:03:00.0": ("0x1a03", "0x2000", "0x030000"),
        "0000:05:00.0": ("0x8086", "0x1593", "0x020000"),
    }
    for name, values in devices.items():
        for key, value in zip(("vendor", "device", "class"), values, strict=True):
            trees.write(root, f"sys/bus/pci/devices/{name}/{key}", value)
    trees.write(root, "sys/bus/pci/devices/0000:2a:00.4/physfn/vendor", "0x10de")
    facts = machine.facts(root, "x86_64")
    assert facts["cards"] == ["0x10de:0x2335", "0x10de:0x2335"]
    found = identity(facts)["host"]
    assert found["cards"] == facts["cards"]
    assert found["last_level_caches"] == [{"level": 3, "size_bytes": 105 << 20, "count": 2}]


def test_this_machine():
    facts = machine.facts()
    json.dumps(facts)
    assert facts["architecture"] == platform.machine()
    assert facts["cpu"]["logical"] == os.cpu_count()
    assert 1 <= facts["cpu"]["cores"] <= facts["cpu"]["logical"]
    if sys.platform == "linux":
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        assert facts["memory_bytes"] == total
    assert identity(facts)["host_id"] == identity(machine.facts())["host_id"]
    nulls = {key for key, value in facts["cpu"].items() if value is None}
    assert {f"cpu.{key}" for key in nulls} <= set(facts["unknown"])


def test_nothing_identifying_is_in_the_facts():
    text = json.dumps([machine.facts(), context.host_context()])
    name = socket.gethostname()
    if len(name) > 3:  # "vm" is a part of other words
        assert name not in text
    home = str(Path.home())
    assert home == "/" or home not in text
    for path in ("/etc/machine-id", "/proc/sys/kernel/random/boot_id"):
        if Path(path).exists():
            assert (Path(path).read_text(encoding="utf-8").strip() or "no identifier") not in text


def test_context_changes_with_what_an_update_changes(tmp_path):
    root = trees.sapphire_rapids(tmp_path)
    before = context.host_context(root)
    assert before["governor"] == "powersave"
    assert before["turbo"] is True
    assert before["energy_preference"] == "balance_performance"
    assert before["mitigations"] == {"spectre_v2": "Mitigation: Enhanced / Automatic IBRS"}
    assert before["microcode"] == "0x2b000639"
    trees.write(root, f"{trees.CPU}/intel_pstate/no_turbo", 1)
    assert context.host_context(root)["turbo"] is False
    assert context.device_context("cpu") is None


def test_context_is_still_when_nothing_changes():
    assert context.host_context() == context.host_context()
    assert context.device_context("cuda") == context.device_context("cuda")


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        ({"proc/cpuinfo": "flags\t\t: fpu hypervisor"}, "unnamed hypervisor"),
        ({"proc/cpuinfo": "flags\t\t: fpu"}, "none"),
        (
            {"proc/cpuinfo": "flags\t\t: fpu hypervisor", "sys/class/dmi/id/sys_vendor": "QEMU"},
            "qemu",
        ),
        ({"proc/device-tree/hypervisor/compatible": "linux,kvm"}, "kvm"),
        ({"proc/device-tree/model": "Raspberry Pi 5 Model B Rev 1.0"}, "none"),
        (
            {
                "sys/class/dmi/id/sys_vendor": "Amazon EC2",
                "sys/class/dmi/id/product_name": "c7g.metal",
            },
            "none",
        ),
        ({}, None),
    ],
)
def test_virtual_machines(tmp_path, files, kind):
    for path, content in files.items():
        trees.write(tmp_path, path, content)
    assert system.virtualisation(tmp_path) == kind


def test_containers(tmp_path):
    assert system.container(tmp_path, {}) == "none"
    assert system.container(tmp_path, {"APPTAINER_CONTAINER": "/x.sif"}) == "apptainer"
    trees.write(tmp_path, "proc/self/cgroup", "0::/kubepods.slice/kubepods-pod1.slice/a.scope")
    assert system.container(tmp_path, {}) == "kubernetes"
    trees.write(tmp_path, ".dockerenv", "")
    assert system.container(tmp_path, {}) == "docker"


def test_a_card_without_a_driver_is_named(tmp_path):
    trees.write(tmp_path, "sys/bus/pci/devices/0000:01:00.0/class", "0x030200")
    trees.write(tmp_path, "sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de")
    trees.write(tmp_path, "sys/bus/pci/devices/0000:02:00.0/class", "0x020000")
    trees.write(tmp_path, "sys/bus/pci/devices/0000:02:00.0/vendor", "0x8086")
    unknown: dict[str, str] = {}
    assert gpus.facts(tmp_path, unknown) == []
    assert "NVIDIA" in unknown["gpus"]
    assert "Intel" not in unknown["gpus"]


def test_a_mac(monkeypatch):
    values = {
        "machdep.cpu.brand_string": b"Apple M2 Max\0",
        "hw.packages": (1).to_bytes(4, sys.byteorder),
        "hw.physicalcpu_max": (12).to_bytes(4, sys.byteorder),
        "hw.logicalcpu_max": (12).to_bytes(4, sys.byteorder),
        "hw.perflevel0.physicalcpu_max": (8).to_bytes(4, sys.byteorder),
        "hw.perflevel1.physicalcpu_max": (4).to_bytes(4, sys.byteorder),
        "hw.perflevel0.l2cachesize": (16 << 20).to_bytes(4, sys.byteorder),
        "hw.perflevel0.cpusperl2": (4).to_bytes(4, sys.byteorder),
        "hw.optional.arm64": (1).to_bytes(4, sys.byteorder),
        "hw.optional.arm.FEAT_BF16": (1).to_bytes(4, sys.byteorder),
        "hw.optional.arm.FEAT_SME": (0).to_bytes(4, sys.byteorder),
    }
    unknown: dict[str, str] = {}
    cpu = apple.facts(unknown, values.get)
    assert (cpu["vendor"], cpu["model"], cpu["cores"]) == ("Apple", "Apple M2 Max", 12)
    assert (cpu["performance_cores"], cpu["efficiency_cores"]) == (8, 4)
    assert cpu["isa"] == ["asimd", "bf16"]
    assert cpu["caches"] == [
        {"level": 2, "type": "unified", "size_bytes": 16 << 20, "shared_by": 4, "count": 2}
    ]
    assert cpu["max_mhz"] is None
    assert unknown["cpu.max_mhz"]


def test_macos_commands():
    assert 0 < macos.free_bytes() <= machine.facts()["memory_bytes"]
    assert macos.power_source() in (None, "ac", "battery")
    screen = {"_spdisplays_display-serial-number": "X9"}
    card = {"sppci_model": "Apple M2 Max", "sppci_cores": "38", "spdisplays_ndrvs": [screen]}
    profile = json.dumps({"SPDisplaysDataType": [card]})
    found = gpus.apple_gpus({}, lambda _: profile)
    assert (found[0]["name"], found[0]["cores"]) == ("Apple M2 Max", 38)
    assert "X9" not in json.dumps(found)
