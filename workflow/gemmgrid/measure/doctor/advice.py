"""What makes timings noisy on this machine, why, and how its owner would cure it.

A row a check: when it speaks, and what it says. Nothing is changed here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gemmgrid.measure.supervise import environment
from gemmgrid.system.files import ROOT, entries, integer

GIB = 1 << 30
CPU = "/sys/devices/system/cpu"
PERF_LEVEL = 2
"""kernel.perf_event_paranoid up to which a process may sample itself."""
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


@dataclass(frozen=True)
class Check:
    """One row: `look` gives the words for the places in the texts, or None where all is well."""

    name: str
    weight: str
    look: Callable[[Seen], tuple[object, ...] | None]
    finding: str
    why: str
    cure: str

    def advise(self, seen: Seen) -> Advice | None:
        words = self.look(seen)
        if words is None:
            return None
        return Advice(
            self.weight, *(text.format(*words) for text in (self.finding, self.why, self.cure))
        )


def _is(key: str, *values: object) -> Callable[[Seen], tuple[object, ...] | None]:
    """The reading, where it is one of the values, or, without any, where it is true."""

    def look(seen: Seen) -> tuple[object, ...] | None:
        value = seen.after.get(key)
        return (value,) if (value in values if values else value) else None

    return look


def _flagged(flag: str, key: str) -> Callable[[Seen], tuple[object, ...] | None]:
    """The reading, where it was enough to be flagged."""
    return lambda seen: _is(key)(seen) if flag in seen.flags else None


def _governor(seen: Seen) -> tuple[object, ...] | None:
    value = seen.after.get("governor")
    return None if value in (None, "performance") else (value,)


def _turbo(seen: Seen) -> tuple[object, ...] | None:
    if not seen.after.get("turbo"):
        return None
    intel = (seen.root / CPU.lstrip("/") / "intel_pstate/no_turbo").exists()
    return (1, f"{CPU}/intel_pstate/no_turbo") if intel else (0, f"{CPU}/cpufreq/boost")


def _virtual(seen: Seen) -> tuple[object, ...] | None:
    kind = seen.facts.get("virtualisation")
    return None if kind in (None, "none") else (kind,)


def _affinity(seen: Seen) -> tuple[object, ...] | None:
    allowed, online = seen.after.get("allowed_cpus"), seen.cpu.get("logical")
    return (allowed, online) if allowed and online and allowed < online else None


def _few_cores(seen: Seen) -> tuple[object, ...] | None:
    cores = seen.cpu.get("cores")
    if not cores or cores > FEW_CORES:
        return None
    if cores == 1:
        return "is one core", "prefer more invocations"
    return f"are {cores} cores", f"trust cells with fewer than {cores} threads more"


def _mixed_cores(seen: Seen) -> tuple[object, ...] | None:
    slow = seen.cpu.get("efficiency_cores")
    return (slow, seen.cpu.get("cores"), seen.cpu.get("performance_cores")) if slow else None


def _nodes(seen: Seen) -> tuple[object, ...] | None:
    count = seen.facts.get("numa") or 1
    return (count,) if count > 1 else None


def _perf_level(seen: Seen) -> tuple[object, ...] | None:
    level = integer(seen.root, "proc/sys/kernel/perf_event_paranoid")
    return (level,) if level is not None and level > PERF_LEVEL else None


def _no_counters(seen: Seen) -> tuple[object, ...] | None:
    devices = entries(seen.root, "sys/bus/event_source/devices")
    hardware = ("cpu", "cpu_core", "armv8", "apple_")
    has = any(name.startswith(hardware) and name != "cpu_atom" for name in devices)
    return () if devices and not has and not _perf_level(seen) else None


def _variables(seen: Seen) -> tuple[object, ...] | None:
    names = sorted(name for name in seen.variables if environment.is_suspicious(name))
    return (", ".join(names), " ".join(names)) if names else None


def _memory(seen: Seen) -> tuple[object, ...] | None:
    free = seen.after.get("free_bytes")
    return None if free is None or free >= 2 * GIB else (free / GIB,)


def _graphics(seen: Seen) -> tuple[object, ...] | None:
    reason = (seen.facts.get("unknown") or {}).get("gpus")
    return None if reason is None else (str(reason)[0].upper() + str(reason)[1:],)


def _graphics_users(seen: Seen) -> tuple[object, ...] | None:
    others = (seen.after.get("gpu") or {}).get("other_processes")
    return (others,) if others else None


CHECKS = (
    Check(
        *("governor", "much", _governor, "the CPU frequency governor is {}"),
        "Clocks rise only after work has begun, so the first samples are slow and short ones vary.",
        "sudo cpupower frequency-set -g performance",
    ),
    Check(
        *("load", "much", _flagged("loaded", "others_cpus")),
        "other processes used {:.1f} CPUs in the last second",
        "They take cores, caches and memory bandwidth away from what is measured.",
        "find them with `top` and end or postpone them",
    ),
    Check(
        *("steal", "much", _flagged("steal", "steal")),
        "the hypervisor took away {:.0%} of the CPU time wanted in the last second",
        "Samples in which the CPU was away are longer by as much.",
        "wait for a quieter time, or use a machine with dedicated CPUs",
    ),
    Check(
        *("battery", "much", _is("power_source", "battery"), "the machine runs on battery"),
        "Clocks are held down, and further as the battery empties.",
        "plug it in",
    ),
    Check(
        *("quota", "much", _is("quota_cpus")),
        "a control group allows {:g} CPUs' worth of time",
        "Threads run at full speed and are then stopped until the next period (0.1 s).",
        "ask for whole CPUs: docker run --cpuset-cpus instead of --cpus, or a batch job with more",
    ),
    Check(
        *("memory", "much", _memory, "{:.1f} GiB of memory are free"),
        "Large cells do not fit (`infeasible`), and a machine that swaps measures its disk.",
        "end programs that hold memory, or raise the job's or container's limit",
    ),
    Check(
        *("graphics_users", "much", _graphics_users),
        "other processes have the GPU open: {}",
        "Their kernels run in between, and their memory is taken.",
        "see them with nvidia-smi; choose another GPU with CUDA_VISIBLE_DEVICES",
    ),
    Check(
        *("turbo", "some", _turbo, "turbo is on"),
        "The clock depends on temperature and on how many cores work, so a rate holds for this "
        "moment. Leave it on to measure what users get; switch it off to compare closely.",
        "echo {} | sudo tee {}",
    ),
    Check(
        *("smt", "some", _is("smt"), "SMT (Hyper-Threading) is on"),
        "Two threads may land on one core and share its vector units, in one run and not the next.",
        "ask for `threads: physical`, or: echo off | sudo tee /sys/devices/system/cpu/smt/control",
    ),
    Check(
        *("virtual_machine", "some", _virtual, "this is a virtual machine ({})"),
        "Neighbours share its caches, memory bandwidth and clocks, and clocks and temperatures "
        "cannot be seen from inside.",
        "measure in rounds (`rounds: 5`), so that the interval covers the neighbours; or use a "
        "whole machine",
    ),
    Check(
        *("throttling", "some", _is("throttle_events")),
        "the CPU was throttled for heat {} times since it was started",
        "A hot CPU lowers its clock in the middle of a measurement; such runs are flagged "
        "`throttled`.",
        "improve the cooling, or leave pauses between measurements",
    ),
    Check(
        *("affinity", "some", _affinity, "this process may use {} of {} CPUs"),
        "Whoever has the others shares caches and memory bandwidth with what is measured.",
        "start from a shell without taskset; on SLURM, ask for the whole node (--exclusive)",
    ),
    Check(
        *("few_cores", "some", _few_cores, "there {} only"),
        "When all of them compute, the system's own work must interrupt the measurement.",
        "{1}",
    ),
    Check(
        *("mixed_cores", "some", _mixed_cores, "{} of its {} cores are slow ones"),
        "The system chooses the cores, and a product waits for its slowest thread.",
        "ask for at most {2} threads; on Linux, start with taskset on the fast cores",
    ),
    Check(
        *("no_huge_pages", "some", _is("thp", "never")),
        "transparent huge pages are set to {}",
        "Large operands lie in 4 KiB pages, and looking their addresses up costs time.",
        "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
    ),
    Check(
        *("huge_pages", "some", _is("thp", "always")),
        "transparent huge pages are set to {}",
        "The kernel may join pages while a sample runs; NumPy asks for huge pages by itself.",
        "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
    ),
    Check(
        *("first_touch", "some", _nodes, "memory is divided into {} NUMA nodes"),
        "One thread writes the operands first, so they lie on its node, and threads on the other "
        "nodes read them through the link between them.",
        "start with numactl --interleave=all for cells that use all cores, and with "
        "numactl --cpunodebind=0 --membind=0 for those that fit on one node",
    ),
    Check(
        "numa_balancing",
        "some",
        lambda seen: _is("numa_balancing")(seen) if _nodes(seen) else None,
        "automatic NUMA balancing is on",
        "The kernel moves pages between sockets while a measurement runs.",
        "sudo sysctl kernel.numa_balancing=0, or start with numactl --interleave=all",
    ),
    Check(
        *("perf_level", "some", _perf_level, "kernel.perf_event_paranoid is {}"),
        "The kernel that ran cannot be found by sampling, so less is known about what ran.",
        f"sudo sysctl kernel.perf_event_paranoid={PERF_LEVEL}",
    ),
    Check(
        *("counters", "some", _no_counters, "there are no hardware counters here"),
        "Cycles cannot be counted, so a slow clock cannot be told from slow code.",
        "nothing to do in a virtual machine, unless its owner passes the counters on",
    ),
    Check(
        *("variables", "some", _variables, "your shell sets {}"),
        "gemmgrid takes these away from what it measures and records that; your own programs, "
        "started from this shell, run with them and may be faster or slower.",
        "unset {1}",
    ),
    Check(
        *("graphics", "some", _graphics, "a graphics card cannot be asked about itself"),
        "{}.",
        "install the vendor's driver, or hand the card on to the container "
        "(docker run --gpus all); without a GPU backend, leave it",
    ),
)


def advise(seen: Seen) -> list[Advice]:
    """All findings, those that move numbers most first."""
    found = [advice for check in CHECKS if (advice := check.advise(seen)) is not None]
    return sorted(found, key=lambda advice: advice.weight != "much")
