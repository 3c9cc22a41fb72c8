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


def _shown(show: Callable[[float], str]) -> Callable[[Fields, str], str | None]:
    """Reads a number, which `show` turns into words."""

    def read(fields: Fields, path: str) -> str | None:
        value = fields.number(path)
        return None if value is None else show(value)

    return read


def _cores(fields: Fields, path: str) -> str | None:
    cores, fast = fields.integer(path), fields.integer("cpu.performance_cores")
    slow = fields.integer("cpu.efficiency_cores")
    if cores is None:
        return None
    return f"{cores} ({fast} performance, {slow} efficiency)" if slow and fast else str(cores)


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
    ("CPU", "cpu.model", Fields.text),
    ("architecture", "architecture", Fields.text),
    ("sockets", "cpu.sockets", _shown("{:.0f}".format)),
    ("cores", "cpu.cores", _cores),
    ("logical CPUs", "cpu.logical", _shown("{:.0f}".format)),
    (
        "SMT",
        "cpu.threads_per_core",
        _shown(lambda one: "off" if one == 1 else f"{one:.0f} threads a core"),
    ),
    ("highest clock", "cpu.max_mhz", _shown(lambda clock: f"{clock / 1000:.2f} GHz")),
    ("nominal clock", "cpu.base_mhz", _shown(lambda clock: f"{clock / 1000:.2f} GHz")),
    ("caches", "cpu.caches", _caches),
    ("instruction sets", "cpu.isa", lambda fields, path: " ".join(fields.texts(path)) or None),
    ("microcode", "cpu.microcode", Fields.text),
    ("NUMA nodes", "numa", _shown("{:.0f}".format)),
    ("memory", "memory_bytes", _shown(bytes_text)),
    ("GPU", "gpus", _gpus),
    ("GPU driver", "gpus", _drivers),
    ("operating system", "os", Fields.text),
    ("kernel", "kernel", Fields.text),
    ("C library", "libc", Fields.text),
    ("virtualisation", "virtualisation", Fields.text),
    ("container", "container", Fields.text),
    ("described at", "recorded_at", Fields.text),
)
