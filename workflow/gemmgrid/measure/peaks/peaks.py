"""How fast a device can be in theory: what share of it was reached, and what cannot be true.

Two different numbers, so that neither spoils the other:

flops   the theoretical peak, for the share of peak in tables. Known from a maker's document or
        derived from vector units, cores and the highest clock; None where anything is a guess.
limit   a bound that no such device exceeds, for calling a rate implausible. Generous, because it
        must never condemn a true measurement: reduced precision inside, products emulated by
        narrower ones, higher clocks than the document's are all allowed for. What it condemns is
        what broken timing produces: rates wrong by factors, not by percents.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gemmgrid.measure.peaks import cpu_peaks
from gemmgrid.measure.peaks.gpu_peaks import TERA, GpuPeak, lookup

REAL = {"complex64": "float32", "complex128": "float64"}
"""Complex products are counted as their real operations."""
THREE_PRODUCTS = 4 / 3
"""A complex product needs three real ones (Karatsuba's way, the "3M" routines), counted as four."""
OVER_CLOCK = 1.25
"""Allowed above the document's clock where the card's own highest clock is not known, and above
its memory bandwidth: boards' memory is overclocked too, and documents differ."""
MARGIN = 1.05
"""Allowed on top for the clocks' and the timer's own error."""
EMULATED_SINGLE = 3
"""Narrower products that make one of float32 precision, at least (3xTF32, BF16x9)."""
EMULATED_DOUBLE = 14
"""Int8 products that make one of float64 precision, at least (Ozaki's schemes); int8 is twice as
fast as the fastest 16-bit type."""
ANY_GPU_LIMIT = 5e16
"""FLOP/s of a GPU that is not in the table: ten times the fastest of 2026."""
APPLE_GPU_CORE_LIMIT = 128 * 2 * 2.5e9 * 8
"""FLOP/s of an Apple GPU core: 128 lanes at 2.5 GHz, and eightfold for matrix units (M5)."""
APPLE_GPU_CORES = 160
"""Assumed where the number is not known; 80 is the most that was sold."""
DTYPES = ("float64", "float32", "tf32", "float16", "bfloat16", "complex64", "complex128")


GPU_RATES = DTYPES[:5]


def peak(
    facts: Mapping[str, Any],
    device: str,
    dtype: str,
    threads: int = 1,
    precision: str | None = None,
    gpu_index: int = 0,
) -> dict[str, Any]:
    """{"flops", "limit", "bytes_per_s", "cache_bytes", "source", "reason"}: rates per second.

    facts       as `machine.facts()` gives them
    device      "cpu", "cuda", "mps" or "gpu"
    threads     threads of the cell: flops is of so many cores, limit of all the machine's
    precision   the effective precision that verification named ("float32", "tf32", …); None if
                not known, and then limit allows for any
    reason      why flops (or all) is None; source says where the figures are from
    """
    effective = precision if precision in DTYPES else None
    real = REAL.get(dtype, dtype)
    wanted = REAL.get(effective or dtype, effective or dtype)
    if device == "cpu":
        found = _cpu(facts, real, wanted, threads, effective is not None)
    else:
        gpus = facts.get("gpus") or []
        if not 0 <= gpu_index < len(gpus):
            return _answer(None, None, "", "the machine's facts describe no such GPU")
        found = _gpu(gpus[gpu_index], real, wanted, effective is not None)
    if dtype in REAL and found["limit"] is not None:
        found["limit"] *= THREE_PRODUCTS
    return found


def table(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Peaks for `machine.json`: device kind → dtype → FLOP/s of one core (cpu) or the GPU.

    {"cpu": {"cores": n, "float32": {"flops_per_core", "source", "reason"}, …},
     "gpu": {"float32": {"flops", "source", "reason"}, …} | None}; "tf32" is float32 with TF32.
    GPUs of several kinds have no peak in common.
    """
    unlike = len({one.get("name") for one in facts.get("gpus") or []}) > 1
    cores = (facts.get("cpu") or {}).get("cores")
    cpu: dict[str, Any] = {"cores": cores}
    gpu: dict[str, Any] | None = {} if facts.get("gpus") else None
    for dtype in DTYPES:
        keys = ("source", "reason")
        if dtype != "tf32":
            one = peak(facts, "cpu", dtype, 1)
            cpu[dtype] = {"flops_per_core": one["flops"], **{key: one[key] for key in keys}}
        if gpu is not None:
            one = peak(facts, "gpu", "float32" if dtype == "tf32" else dtype, 1, dtype)
            if unlike:
                one |= {"flops": None, "source": None, "reason": "its GPUs are of several kinds"}
            gpu[dtype] = {"flops": one["flops"], **{key: one[key] for key in keys}}
    return {"cpu": cpu, "gpu": gpu}


def least_seconds(limits: Mapping[str, Any], flops: int, operand_bytes: int) -> float | None:
    """Shortest time that a call can truly take, None where nothing bounds it.

    limits          an answer of `peak`
    flops           of one call
    operand_bytes   of operands and result; repeated calls must fetch what the cache cannot hold
    """
    bounds = []
    if limits.get("limit"):
        bounds.append(flops / limits["limit"])
    if limits.get("bytes_per_s") and limits.get("cache_bytes") is not None:
        fetched = operand_bytes - limits["cache_bytes"]
        bounds.append(max(0, fetched) / (limits["bytes_per_s"] * OVER_CLOCK))
    return max(bounds, default=None)


def _answer(
    flops: float | None, limit: float | None, source: str, reason: str | None
) -> dict[str, Any]:
    return {
        "flops": flops,
        "limit": limit,
        "bytes_per_s": None,
        "cache_bytes": None,
        "source": source or None,
        "reason": reason,
    }


def _cpu(
    facts: Mapping[str, Any], real: str, wanted: str, threads: int, verified: bool
) -> dict[str, Any]:
    cpu = facts.get("cpu") or {}
    cores = cpu.get("cores")
    rates = cpu_peaks.rates_per_cycle(cpu)
    per_cycle, why = rates.get(wanted, rates["float32"])
    clock, driver = cpu.get("max_mhz"), cpu.get("clock_driver")
    reason = None
    if per_cycle is None:
        reason = why
    elif clock is None:
        reason = "the highest clock is not known"
    elif driver not in cpu_peaks.TRUSTED_DRIVERS:
        reason = f"the highest clock that {driver or 'the system'} tells may leave turbo out"
    elif cores is None:
        reason = "the number of cores is not known"
    flops = None
    if reason is None and per_cycle and clock and cores:
        flops = per_cycle * clock * 1e6 * min(threads, cores)
    source = f"{why}; {per_cycle:g} operations a cycle and core" if per_cycle else ""
    bounds = cpu_peaks.limits(cpu, str(facts.get("architecture")))
    most = max(cores or 0, cpu.get("logical") or 0)
    limit = most * _allowed(bounds, bounds, real, wanted, verified) if most else None
    return _answer(flops, limit, source, reason)


def _gpu(gpu: Mapping[str, Any], real: str, wanted: str, verified: bool) -> dict[str, Any]:
    name = gpu.get("name")
    row = lookup(name)
    if row is None:
        limit = ANY_GPU_LIMIT
        if str(name).startswith("Apple"):
            limit = (gpu.get("cores") or APPLE_GPU_CORES) * APPLE_GPU_CORE_LIMIT
        return _answer(None, limit, "", f"{name or 'this GPU'} is not in the table of peaks")
    rates: dict[str, float | None] = {key: getattr(row, key) for key in GPU_RATES}
    rate = rates.get(wanted)
    reason = None if rate else f"{name} has no {wanted} of its own, or none is published"
    share = (gpu["cores"] / row.cores) if row.cores and gpu.get("cores") else 1.0
    if rate and gpu.get("mig"):
        rate, reason = None, "a MIG instance has a part of the GPU only"
    fast = dict(rates, float16=max(row.float16 or 0, row.float16_sums or 0))
    bound = _allowed(
        {key: value or 0.0 for key, value in fast.items()}, rates, real, wanted, verified
    )
    if str(name).startswith("Apple"):
        bound = max(bound, 2 * row.float32)  # its float16 rate is disputed
    found = _answer(
        rate * TERA * share if rate else None,
        bound * TERA * _clock_share(gpu, row) * MARGIN,
        row.source,
        reason,
    )
    found["bytes_per_s"] = row.gbps * 1e9
    found["cache_bytes"] = row.cache_mb * 2**20 if row.cache_mb is not None else None
    return found


def _clock_share(gpu: Mapping[str, Any], row: GpuPeak) -> float:
    """How far the card may run above the document's clock."""
    highest = gpu.get("max_sm_mhz")
    if not highest or not row.clock_mhz:
        return OVER_CLOCK
    return max(1.0, float(highest) / row.clock_mhz)


def _allowed(
    fast: Mapping[str, float],
    rates: Mapping[str, float | None],
    real: str,
    wanted: str,
    verified: bool,
) -> float:
    """The highest rate that a correct product of dtype `real` may show, from rates by precision.

    Where the precision was verified to be the dtype's own, narrower units can still do the work in
    several products; where it was not, one narrower product may have been taken for it.
    """
    narrow = max(fast.get(key) or 0.0 for key in ("tf32", "float16", "bfloat16"))
    own = rates.get(real) or 0.0
    single = rates.get("float32") or 0.0
    exact = verified and wanted == real
    if real == "float64":
        return max(own, 2 * narrow / EMULATED_DOUBLE, 0.0 if exact else single)
    if real == "float32":
        return max(own, narrow / EMULATED_SINGLE if exact else narrow)
    return max(own, narrow, single)
