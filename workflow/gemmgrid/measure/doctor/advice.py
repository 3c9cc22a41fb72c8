"""What makes timings noisy on this machine, why, and how its owner would cure it.

Every check takes what was read and gives an Advice or None; nothing is changed here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gemmgrid.measure.host.sysfiles import ROOT, entries, integer
from gemmgrid.measure.supervise import environment

GIB = 1 << 30
CPU = "/sys/devices/system/cpu"
NOISY_PERF_LEVEL = 2
FEW_CORES = 2


@dataclass(frozen=True)
class Advice:
    """One finding.

    weight   "much" or "some", by how far it moves numbers
    cure     what its owner may run or do
    """

    weight: str
    finding: str
    why: str
    cure: str


@dataclass(frozen=True)
class Seen:
    """What was read of the machine.

    facts           of `machine.facts`
    before, after   two readings of `conditions.read`, a second apart; flags are `judge`'s of them
    variables       of the shell
    """

    facts: Mapping[str, Any]
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    flags: Iterable[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    root: Path = ROOT

    @property
    def cpu(self) -> Mapping[str, Any]:
        return self.facts.get("cpu") or {}


def governor(seen: Seen) -> Advice | None:
    value = seen.after.get("governor")
    if value in (None, "performance"):
        return None
    return Advice(
        "much",
        f"the CPU frequency governor is {value}",
        "Clocks rise only after work has begun, so the first samples are slow and short ones vary.",
        "sudo cpupower frequency-set -g performance",
    )


def turbo(seen: Seen) -> Advice | None:
    if not seen.after.get("turbo"):
        return None
    intel = (seen.root / CPU.lstrip("/") / "intel_pstate/no_turbo").exists()
    switch = f"{CPU}/intel_pstate/no_turbo" if intel else f"{CPU}/cpufreq/boost"
    return Advice(
        "some",
        "turbo is on",
        "The clock depends on temperature and on how many cores work, so a rate holds for this "
        "moment. Leave it on to measure what users get; switch it off to compare closely.",
        f"echo {1 if intel else 0} | sudo tee {switch}",
    )


def smt(seen: Seen) -> Advice | None:
    if not seen.after.get("smt"):
        return None
    return Advice(
        "some",
        "SMT (Hyper-Threading) is on",
        "Two threads may land on one core and share its vector units, in one run and not the next.",
        "ask for `threads: physical`, or: echo off | sudo tee /sys/devices/system/cpu/smt/control",
    )


def virtual_machine(seen: Seen) -> Advice | None:
    kind = seen.facts.get("virtualisation")
    if kind in (None, "none"):
        return None
    return Advice(
        "some",
        f"this is a virtual machine ({kind})",
        "Neighbours share its caches, memory bandwidth and clocks, and clocks and temperatures "
        "cannot be seen from inside.",
        "measure in rounds (`rounds: 5`), so that the interval covers the neighbours; or use a "
        "whole machine",
    )


def steal(seen: Seen) -> Advice | None:
    share = seen.after.get("steal")
    if "steal" not in seen.flags or share is None:
        return None
    return Advice(
        "much",
        f"the hypervisor took away {share:.0%} of the CPU time wanted in the last second",
        "Samples in which the CPU was away are longer by as much.",
        "wait for a quieter time, or use a machine with dedicated CPUs",
    )


def load(seen: Seen) -> Advice | None:
    others = seen.after.get("others_cpus")
    if "loaded" not in seen.flags or not others:
        return None
    return Advice(
        "much",
        f"other processes used {others:.1f} CPUs in the last second",
        "They take cores, caches and memory bandwidth away from what is measured.",
        "find them with `top` and end or postpone them",
    )


def battery(seen: Seen) -> Advice | None:
    if seen.after.get("power_source") != "battery":
        return None
    return Advice(
        "much",
        "the machine runs on battery",
        "Clocks are held down, and further as the battery empties.",
        "plug it in",
    )


def throttling(seen: Seen) -> Advice | None:
    events = seen.after.get("throttle_events")
    if not events:
        return None
    return Advice(
        "some",
        f"the CPU was throttled for heat {events} times since it was started",
        "A hot CPU lowers its clock in the middle of a measurement; such runs are flagged "
        "`throttled`.",
        "improve the cooling, or leave pauses between measurements",
    )


def quota(seen: Seen) -> Advice | None:
    cpus = seen.after.get("quota_cpus")
    if cpus is None:
        return None
    return Advice(
        "much",
        f"a control group allows {cpus:g} CPUs' worth of time",
        "Threads run at full speed and are then stopped until the next period (0.1 s).",
        "ask for whole CPUs: docker run --cpuset-cpus instead of --cpus, or a batch job with more",
    )


def affinity(seen: Seen) -> Advice | None:
    allowed, online = seen.after.get("allowed_cpus"), seen.cpu.get("logical")
    if not allowed or not online or allowed >= online:
        return None
    return Advice(
        "some",
        f"this process may use {allowed} of {online} CPUs",
        "Whoever has the others shares caches and memory bandwidth with what is measured.",
        "start from a shell without taskset; on SLURM, ask for the whole node (--exclusive)",
    )


def few_cores(seen: Seen) -> Advice | None:
    cores = seen.cpu.get("cores")
    if not cores or cores > FEW_CORES:
        return None
    return Advice(
        "some",
        f"there {'is one core' if cores == 1 else f'are {cores} cores'} only",
        "When all of them compute, the system's own work must interrupt the measurement.",
        f"trust cells with fewer than {cores} threads more"
        if cores > 1
        else "prefer more invocations",
    )


def mixed_cores(seen: Seen) -> Advice | None:
    slow = seen.cpu.get("efficiency_cores")
    if not slow:
        return None
    return Advice(
        "some",
        f"{slow} of its {seen.cpu.get('cores')} cores are slow ones",
        "The system chooses the cores, and a product waits for its slowest thread.",
        f"ask for at most {seen.cpu.get('performance_cores')} threads; on Linux, start with "
        "taskset on the fast cores",
    )


def huge_pages(seen: Seen) -> Advice | None:
    mode = seen.after.get("thp")
    switch = "/sys/kernel/mm/transparent_hugepage/enabled"
    if mode == "never":
        why = "Large operands lie in 4 KiB pages, and looking their addresses up costs time."
    elif mode == "always":
        why = "The kernel may join pages while a sample runs; NumPy asks for huge pages by itself."
    else:
        return None
    return Advice(
        "some",
        f"transparent huge pages are set to {mode}",
        why,
        f"echo madvise | sudo tee {switch}",
    )


def numa_balancing(seen: Seen) -> Advice | None:
    if not seen.after.get("numa_balancing") or (seen.facts.get("numa") or 1) < 2:
        return None
    return Advice(
        "some",
        "automatic NUMA balancing is on",
        "The kernel moves pages between sockets while a measurement runs.",
        "sudo sysctl kernel.numa_balancing=0, or start with numactl --interleave=all",
    )


def counters(seen: Seen) -> Advice | None:
    level = integer(seen.root, "proc/sys/kernel/perf_event_paranoid")
    if level is not None and level > NOISY_PERF_LEVEL:
        return Advice(
            "some",
            f"kernel.perf_event_paranoid is {level}",
            "The kernel that ran cannot be found by sampling, so less is known about what ran.",
            f"sudo sysctl kernel.perf_event_paranoid={NOISY_PERF_LEVEL}",
        )
    devices = entries(seen.root, "sys/bus/event_source/devices")
    hardware = ("cpu", "cpu_core", "armv8", "apple_")
    if not devices or any(name.startswith(hardware) and name != "cpu_atom" for name in devices):
        return None
    return Advice(
        "some",
        "there are no hardware counters here",
        "Cycles cannot be counted, so a slow clock cannot be told from slow code.",
        "nothing to do in a virtual machine, unless its owner passes the counters on",
    )


def variables(seen: Seen) -> Advice | None:
    names = sorted(name for name in seen.variables if environment.is_suspicious(name))
    if not names:
        return None
    return Advice(
        "some",
        f"your shell sets {', '.join(names)}",
        "gemmgrid takes these away from what it measures and records that; your own programs, "
        "started from this shell, run with them and may be faster or slower.",
        f"unset {' '.join(names)}",
    )


def memory(seen: Seen) -> Advice | None:
    free = seen.after.get("free_bytes")
    if free is None or free >= 2 * GIB:
        return None
    return Advice(
        "much",
        f"{free / GIB:.1f} GiB of memory are free",
        "Large cells do not fit (`infeasible`), and a machine that swaps measures its disk.",
        "end programs that hold memory, or raise the job's or container's limit",
    )


def graphics(seen: Seen) -> Advice | None:
    reason = (seen.facts.get("unknown") or {}).get("gpus")
    if reason is None:
        return None
    return Advice(
        "some",
        "a graphics card cannot be asked about itself",
        str(reason)[0].upper() + str(reason)[1:] + ".",
        "install the vendor's driver, or hand the card on to the container "
        "(docker run --gpus all); without a GPU backend, leave it",
    )


def graphics_users(seen: Seen) -> Advice | None:
    card = seen.after.get("gpu") or {}
    others = card.get("other_processes")
    if not others:
        return None
    return Advice(
        "much",
        f"other processes have the GPU open: {others}",
        "Their kernels run in between, and their memory is taken.",
        "see them with nvidia-smi; choose another GPU with CUDA_VISIBLE_DEVICES",
    )


CHECKS: tuple[Callable[[Seen], Advice | None], ...] = (
    governor,
    load,
    steal,
    battery,
    quota,
    memory,
    graphics_users,
    turbo,
    smt,
    virtual_machine,
    throttling,
    affinity,
    few_cores,
    mixed_cores,
    huge_pages,
    numa_balancing,
    counters,
    variables,
    graphics,
)


def advise(seen: Seen) -> list[Advice]:
    """All findings, those that move numbers most first."""
    found = [advice for check in CHECKS if (advice := check(seen)) is not None]
    return sorted(found, key=lambda advice: advice.weight != "much")
