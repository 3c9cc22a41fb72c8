"""Trees of small files that stand for `/` on other machines, in the kernel's own formats.

Model names, numbers and flags are those of real machines; the trees hold what the code reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

INTEL_FLAGS = (
    "fpu vme de pse tsc msr constant_tsc nonstop_tsc aperfmperf pni ssse3 fma sse4_1 sse4_2 avx "
    "f16c avx2 avx512f avx512dq avx512cd avx512bw avx512vl avx_vnni avx512_bf16 avx512_vnni "
    "amx_bf16 avx512_fp16 amx_tile amx_int8"
)
ROME_FLAGS = "fpu vme tsc constant_tsc aperfmperf pni ssse3 fma sse4_1 sse4_2 avx f16c avx2 clzero"
GRAVITON3_FLAGS = (
    "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm jscvt fcma "
    "lrcpc dcpop sha3 sm3 sm4 asimddp sha512 sve asimdfhm dit uscat ilrcpc flagm ssbs paca pacg "
    "dcpodp svei8mm svebf16 i8mm bf16 dgh rng"
)
CPU = "sys/devices/system/cpu"


def write(root: Path, path: str, content: object) -> None:
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(f"{content}\n")


def ranges(cpus: Iterable[int]) -> str:
    return ",".join(str(cpu) for cpu in cpus)


def topology(root: Path, cores: list[tuple[int, list[int]]]) -> None:
    """Each core: its package and its logical CPUs."""
    for number, (package, siblings) in enumerate(cores):
        for cpu in siblings:
            folder = f"{CPU}/cpu{cpu}/topology"
            write(root, f"{folder}/physical_package_id", package)
            write(root, f"{folder}/core_id", number)
            write(root, f"{folder}/core_cpus_list", ranges(siblings))
    count = sum(len(siblings) for _, siblings in cores)
    write(root, f"{CPU}/online", f"0-{count - 1}")


def cache(root: Path, cpu: int, index: int, level: int, kind: str, size: str, shared: str) -> None:
    folder = f"{CPU}/cpu{cpu}/cache/index{index}"
    write(root, f"{folder}/level", level)
    write(root, f"{folder}/type", kind)
    write(root, f"{folder}/size", size)
    write(root, f"{folder}/shared_cpu_list", shared)


def x86_listing(
    count: int,
    vendor: str,
    family: int,
    model: int,
    name: str,
    stepping: int,
    flags: str,
    mhz: float = 2000.0,
) -> str:
    block = (
        "processor\t: {cpu}\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\n"
        "model name\t: {name}\nstepping\t: {stepping}\nmicrocode\t: 0x2b000639\n"
        "cpu MHz\t\t: {mhz:.3f}\ncache size\t: 512 KB\nflags\t\t: {flags}\nbogomips\t: 4000.00"
    )  # fmt: skip
    return "\n\n".join(
        block.format(cpu=cpu, vendor=vendor, family=family, model=model, name=name,
                     stepping=stepping, flags=flags, mhz=mhz + cpu)
        for cpu in range(count)
    )  # fmt: skip


def sapphire_rapids(root: Path) -> Path:
    """Two sockets of 4 cores (of 56), SMT on: siblings 0 and 8, 1 and 9, …"""
    listing = x86_listing(
        16, "GenuineIntel", 6, 143, "Intel(R) Xeon(R) Platinum 8480+", 8, INTEL_FLAGS
    )
    write(root, "proc/cpuinfo", listing)
    topology(root, [(core // 4, [core, core + 8]) for core in range(8)])
    for core in range(8):
        package = [cpu for cpu in range(16) if cpu % 8 // 4 == core // 4]
        for cpu in (core, core + 8):
            both = f"{core},{core + 8}"
            cache(root, cpu, 0, 1, "Data", "48K", both)
            cache(root, cpu, 1, 1, "Instruction", "32K", both)
            cache(root, cpu, 2, 2, "Unified", "2048K", both)
            cache(root, cpu, 3, 3, "Unified", "107520K", ranges(package))
    write(root, f"{CPU}/smt/control", "on")
    write(root, f"{CPU}/smt/active", 1)
    write(root, f"{CPU}/intel_pstate/no_turbo", 0)
    for cpu in range(16):
        policy = f"{CPU}/cpufreq/policy{cpu}"
        write(root, f"{policy}/scaling_driver", "intel_pstate")
        write(root, f"{policy}/cpuinfo_max_freq", 3800000)
        write(root, f"{policy}/base_frequency", 2000000)
        write(root, f"{CPU}/cpu{cpu}/cpufreq/scaling_cur_freq", 2900000 + cpu)
        write(root, f"{CPU}/cpu{cpu}/cpufreq/scaling_governor", "powersave")
        write(root, f"{CPU}/cpu{cpu}/cpufreq/energy_performance_preference", "balance_performance")
        write(root, f"{CPU}/cpu{cpu}/thermal_throttle/core_throttle_count", 3)
        write(root, f"{CPU}/cpu{cpu}/thermal_throttle/package_throttle_count", 1)
    write(root, "sys/devices/system/node/has_memory", "0-1")
    write(root, "proc/meminfo", "MemTotal:       526910464 kB\nMemAvailable:   500000000 kB")
    write(root, "proc/stat", "cpu  1000 10 200 90000 5 1 2 0 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0")
    write(root, "proc/loadavg", "1.25 0.40 0.10 2/900 12345")
    write(root, "proc/sys/kernel/osrelease", "5.14.0-427.el9.x86_64")
    write(root, "proc/sys/kernel/numa_balancing", 1)
    write(root, "proc/sys/kernel/perf_event_paranoid", 4)
    write(root, "sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never")
    write(root, "sys/class/hwmon/hwmon0/name", "nvme")
    write(root, "sys/class/hwmon/hwmon0/temp1_input", 91000)
    write(root, "sys/class/hwmon/hwmon1/name", "coretemp")
    write(root, "sys/class/hwmon/hwmon1/temp1_input", 47000)
    write(root, "sys/class/hwmon/hwmon2/name", "coretemp")
    write(root, "sys/class/hwmon/hwmon2/temp1_input", 52000)
    write(root, "etc/os-release", 'NAME="Rocky Linux"\nPRETTY_NAME="Rocky Linux 9.4"')
    write(root, "sys/class/dmi/id/sys_vendor", "Dell Inc.")
    write(root, f"{CPU}/vulnerabilities/spectre_v2", "Mitigation: Enhanced / Automatic IBRS")
    write(root, f"{CPU}/vulnerabilities/meltdown", "Not affected")
    return root


def rome(root: Path) -> Path:
    """Two EPYC 7742 (8 of 128 cores), SMT switched off by the owner, four NUMA nodes a socket."""
    listing = x86_listing(
        8, "AuthenticAMD", 23, 49, "AMD EPYC 7742 64-Core Processor", 0, ROME_FLAGS
    )
    write(root, "proc/cpuinfo", listing)
    topology(root, [(core // 4, [core]) for core in range(8)])
    for core in range(8):
        pair = core // 4 * 4
        cache(root, core, 0, 1, "Data", "32K", str(core))
        cache(root, core, 3, 3, "Unified", "16384K", f"{pair}-{pair + 3}")
    write(root, f"{CPU}/smt/control", "off")
    write(root, f"{CPU}/smt/active", 0)
    write(root, f"{CPU}/cpufreq/boost", 0)
    write(root, f"{CPU}/cpufreq/policy0/scaling_driver", "acpi-cpufreq")
    write(root, f"{CPU}/cpufreq/policy0/cpuinfo_max_freq", 2250000)
    write(root, f"{CPU}/cpu0/cpufreq/scaling_governor", "performance")
    write(root, "sys/devices/system/node/has_memory", "0-7")
    write(root, "proc/meminfo", "MemTotal:       263855104 kB\nMemAvailable:   250000000 kB")
    write(root, "proc/self/cgroup", "0::/user.slice")
    write(root, "sys/class/hwmon/hwmon3/name", "k10temp")
    write(root, "sys/class/hwmon/hwmon3/temp1_input", 61250)
    return root


def graviton3(root: Path) -> Path:
    """An AWS c7g.xlarge: four cores of Neoverse V1 under KVM."""
    block = (
        "processor\t: {cpu}\nBogoMIPS\t: 2100.00\nFeatures\t: {flags}\nCPU implementer\t: 0x41\n"
        "CPU architecture: 8\nCPU variant\t: 0x1\nCPU part\t: 0xd40\nCPU revision\t: 1"
    )
    listing = "\n\n".join(block.format(cpu=cpu, flags=GRAVITON3_FLAGS) for cpu in range(4))
    write(root, "proc/cpuinfo", listing)
    topology(root, [(0, [core]) for core in range(4)])
    for core in range(4):
        write(root, f"{CPU}/cpu{core}/cpu_capacity", 1024)
        cache(root, core, 0, 1, "Data", "64K", str(core))
    write(root, "sys/devices/system/node/has_memory", "0")
    write(root, "proc/meminfo", "MemTotal:        7903232 kB\nMemAvailable:    7000000 kB")
    write(root, "sys/class/dmi/id/sys_vendor", "Amazon EC2")
    write(root, "sys/class/dmi/id/product_name", "c7g.xlarge")
    return root


def hybrid(root: Path) -> Path:
    """A Core i5 of the 12th generation: two fast cores with SMT, four slow ones."""
    flags = "fpu tsc constant_tsc aperfmperf sse4_2 avx f16c fma avx2 avx_vnni"
    listing = x86_listing(
        8, "GenuineIntel", 6, 154, "12th Gen Intel(R) Core(TM) i5-1235U", 4, flags
    )
    write(root, "proc/cpuinfo", listing)
    fast = [(0, [0, 1]), (0, [2, 3])]
    topology(root, [*fast, *[(0, [cpu]) for cpu in range(4, 8)]])
    write(root, "sys/devices/cpu_core/cpus", "0-3")
    write(root, "sys/devices/cpu_atom/cpus", "4-7")
    write(root, f"{CPU}/smt/control", "on")
    write(root, f"{CPU}/smt/active", 1)
    write(root, "sys/class/power_supply/AC/type", "Mains")
    write(root, "sys/class/power_supply/AC/online", 0)
    write(root, "sys/class/power_supply/BAT0/type", "Battery")
    write(root, "sys/class/power_supply/BAT0/status", "Discharging")
    write(root, "sys/class/power_supply/hidpp_battery_0/type", "Battery")
    write(root, "sys/class/power_supply/hidpp_battery_0/scope", "Device")
    write(root, "sys/class/power_supply/hidpp_battery_0/status", "Discharging")
    return root
