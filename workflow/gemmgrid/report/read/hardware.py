"""machine.json as a list of named facts, every value checked: the file may come from anyone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gemmgrid.report.read.fields import Fields, clean


@dataclass(frozen=True)
class Fact:
    """One fact of one machine. text is None where it is not known, and reason says why."""

    text: str | None
    reason: str | None = None


def facts(document: dict[str, Any] | None) -> dict[str, Fact]:
    """Every fact by its label, in the order shown; all unknown without a document."""
    fields = Fields(document or {})
    unknown = fields.mapping("unknown")
    found = {}
    for label, path, read in _FACTS:
        reason = unknown.get(path)
        text = read(fields, path)
        found[label] = Fact(text, clean(reason) if isinstance(reason, str) and not text else None)
    return found


def peak_gflops(
    document: dict[str, Any] | None,
    device: str | None,
    dtype: str,
    threads: int,
    effective: str | None,
) -> float | None:
    """The theoretical GFLOP/s that machine.json gives for this device, dtype and threads, or None.

    effective: the precision really computed in; float32 products done in TF32 have TF32's peak.
    """
    fields = Fields(document or {})
    key = "tf32" if (dtype, effective) == ("float32", "tf32") else dtype
    if device == "cpu":
        one, cores = fields.number(f"peaks.cpu.{key}.flops_per_core"), fields.integer("cpu.cores")
        return one * min(threads, cores) / 1e9 if one and cores else None
    flops = fields.number(f"peaks.gpu.{key}.flops")
    return flops / 1e9 if flops else None


def bytes_text(count: float) -> str:
    """Bytes in binary units, as memory is sold: 32 KiB, 23.5 GiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.4g} TiB"


def _text(fields: Fields, path: str) -> str | None:
    return fields.text(path)


def _count(fields: Fields, path: str) -> str | None:
    count = fields.integer(path)
    return None if count is None else str(count)


def _cores(fields: Fields, path: str) -> str | None:
    cores, fast = fields.integer(path), fields.integer("cpu.performance_cores")
    slow = fields.integer("cpu.efficiency_cores")
    if cores is None:
        return None
    return f"{cores} ({fast} performance, {slow} efficiency)" if slow and fast else str(cores)


def _smt(fields: Fields, path: str) -> str | None:
    threads = fields.integer(path)
    return None if threads is None else ("off" if threads == 1 else f"{threads} threads a core")


def _bytes(fields: Fields, path: str) -> str | None:
    count = fields.number(path)
    return None if count is None else bytes_text(count)


def _mhz(fields: Fields, path: str) -> str | None:
    clock = fields.number(path)
    return None if clock is None else f"{clock / 1000:.2f} GHz"


def _caches(fields: Fields, path: str) -> str | None:
    described = []
    for cache in fields.parts(path):
        level, size = cache.integer("level"), cache.number("size_bytes")
        kind = {"data": "d", "instruction": "i"}.get(cache.text("type") or "", "")
        count = cache.integer("count")
        if level is not None and size is not None:
            times = f"{count} × " if count and count > 1 else ""
            described.append(f"L{level}{kind} {times}{bytes_text(size)}")
    return ", ".join(described) or None


def _list(fields: Fields, path: str) -> str | None:
    return " ".join(fields.texts(path)) or None


def _gpus(fields: Fields, path: str) -> str | None:
    described = []
    for gpu in fields.parts(path):
        memory = gpu.number("memory_bytes")
        parts = [gpu.text("name") or "unnamed", bytes_text(memory) if memory else ""]
        described.append(", ".join(part for part in parts if part))
    return "; ".join(described) or None


def _drivers(fields: Fields, path: str) -> str | None:
    described = []
    for gpu in fields.parts(path):
        driver, cuda = gpu.text("driver"), gpu.text("cuda")
        if driver:
            described.append(f"{driver}, CUDA {cuda}" if cuda else driver)
    return "; ".join(dict.fromkeys(described)) or None


_FACTS: tuple[tuple[str, str, Callable[[Fields, str], str | None]], ...] = (
    ("CPU", "cpu.model", _text),
    ("architecture", "architecture", _text),
    ("sockets", "cpu.sockets", _count),
    ("cores", "cpu.cores", _cores),
    ("logical CPUs", "cpu.logical", _count),
    ("SMT", "cpu.threads_per_core", _smt),
    ("highest clock", "cpu.max_mhz", _mhz),
    ("nominal clock", "cpu.base_mhz", _mhz),
    ("caches", "cpu.caches", _caches),
    ("instruction sets", "cpu.isa", _list),
    ("microcode", "cpu.microcode", _text),
    ("NUMA nodes", "numa", _count),
    ("memory", "memory_bytes", _bytes),
    ("GPU", "gpus", _gpus),
    ("GPU driver", "gpus", _drivers),
    ("operating system", "os", _text),
    ("kernel", "kernel", _text),
    ("C library", "libc", _text),
    ("virtualisation", "virtualisation", _text),
    ("container", "container", _text),
    ("described at", "recorded_at", _text),
)
