"""The order of a measurement inside one process, from the import to the last verification."""

from __future__ import annotations

import platform
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from typing import Any

from gemmgrid.measure.invocation.threads import Census, judge

_CENSUS = Census()  # before the library is imported: it may change the affinity
_IMPORTS_BEGAN = time.perf_counter()

import numpy as np  # noqa: E402

from gemmgrid.measure import adapters, libraries  # noqa: E402
from gemmgrid.measure.adapters.base import Adapter, Call  # noqa: E402
from gemmgrid.measure.invocation import operands, sampling, selftest  # noqa: E402
from gemmgrid.measure.invocation.loop import Loop, compile_loop, describe_clock  # noqa: E402
from gemmgrid.measure.invocation.outcome import Ended  # noqa: E402
from gemmgrid.measure.invocation.verify import Verdict, verify  # noqa: E402
from gemmgrid.measure.probe.probe import Probe  # noqa: E402
from gemmgrid.records.cell import Cell, Options  # noqa: E402

Expires = Callable[[float], bool]
Document = dict[str, Any]

MEMORY_S = 0.5
"""Time that the probe of the memory may need; most of it goes to getting its pages."""
PROBE_SIZE = 256
"""Largest dimension of the products that compare a dtype with float32."""
SIDE_S = 1.5
"""Time that the first process keeps back for its side measurements."""
SLOW = 12.0
"""A dtype this many times slower than float32 in the same library takes a slow path.

float64 costs twice float32, complex64 four times, complex128 eight times.
"""


def measure(
    job: Document, document: Document, stage: Callable[[str], None], expires: Expires
) -> None:
    """Fill `document` with what this process found; raises Ended where it ends early."""
    cell = Cell.from_json(job["cell"])
    settings, seed = job["settings"], job["seed"]
    adapter = adapters.load(job["adapter"])(job["device"], job["options"])
    document["import_s"] = time.perf_counter() - _IMPORTS_BEGAN  # NumPy and the library
    _CENSUS.imported()
    reason = adapter.unsupported(cell)
    if reason:
        raise Ended("unsupported", reason)
    adapter.set_threads(cell.threads)
    document["timer"] = describe_clock()

    stage("prepare")
    start = time.perf_counter()
    given = operands.make(cell, seed)
    call = _prepare(adapter, cell, given, job)
    loop = compile_loop(call)
    document["setup_s"] = time.perf_counter() - start
    document["operands"] = {**_where(given, call), "sets": len(call.sets) if call.sets else 1}
    document["operands"]["first_touch"] = "one thread"
    document["expression_names"] = call.where
    document["expression"] = call.statement

    stage("first-call")
    _poison(call)
    document["first_call_s"] = loop.batch(1) / 1e9
    _identify(adapter, job, document)

    stage("verify")
    verdicts = document["verify"] = {"before": None, "after": None, "fresh": None}
    _judge(verdicts, "before", verify(given, _result(call, loop), seed))

    stage("warmup")
    warmup = sampling.warm_up(loop, settings, expires)
    document["warmup"], document["inner"] = warmup.to_json(), warmup.inner
    document["selftest"] = selftest.doubling(loop, warmup.inner, expires)

    stage("sample")
    probe = Probe(job["device"], cell.threads)
    document["probe"] = probe.record
    _poison(call)
    probe.around("before")
    _CENSUS.start()
    kept_s = min(SIDE_S, job["soft_s"] / 4) if job["index"] == 0 else 0.0
    taken = sampling.take_samples(
        loop, warmup.inner, settings, lambda seconds: expires(seconds + kept_s)
    )
    _CENSUS.stop()
    probe.around("after")
    document["threads"] = _CENSUS.result(cell.threads, adapter.library_threads())
    document["samples"], document["stop"] = taken.to_json(), taken.stop

    stage("verify-after")
    if cell.options.beta != 0:
        _poison(call)
        loop.batch(1)
    _judge(verdicts, "after", verify(given, _result(call, loop), seed + 1))
    document["effective_precision"] = verdicts["after"]["precision"]
    left = document["leftover"] = selftest.leftover(
        loop, warmup.inner, lambda: _result(call, loop), expires
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    document["peak_rss_bytes"] = peak if sys.platform == "darwin" else peak * 1024
    _judge(verdicts, "fresh", _with_fresh_operands(adapter, given, call, loop, seed + 2))
    # Behind the samples: what one process does before them, all must do.
    _first_only(document, job, adapter, cell, expires)
    _probe_memory(probe, cell, job, expires)

    for test in (document["selftest"], left):
        if not test["ok"]:
            raise Ended("implausible", test["reason"])
    _flag(document, cell, settings)


def _probe_memory(probe: Probe, cell: Cell, job: Document, expires: Expires) -> None:
    """Last of all, because its arrays push everything else out of the caches."""
    if job["index"] and cell.routine == "gemm" and not cell.options.cold:
        probe.skip("memory", "measured by the run's first process")
    elif expires(MEMORY_S):
        probe.skip("memory", "no time left in the budget")
    else:
        probe.memory(job.get("cache_bytes"))


def _where(given: operands.Operands, call: Call) -> Document:
    """Where the operands lie, as the library has them: it may have made copies of its own."""
    described = given.describe()
    for name in "ABC":
        address = call.addresses.get(name)
        if address is None:
            described[name] = None
        elif name not in described or described[name]["address"] != hex(address):
            alignment = min(address & -address, operands.PAGE)
            described[name] = {"address": hex(address), "alignment": alignment, "strides": None}
    return {**described, "unknown": call.unknown}


def _prepare(adapter: Adapter, cell: Cell, given: operands.Operands, job: Document) -> Call:
    """The call; if `.cold`, with as many sets of equal operands as the supervisor says."""
    if not cell.options.cold:
        return adapter.prepare(cell, given)
    copies = [given, *(operands.duplicate(given) for _ in range(job["sets"] - 1))]
    return adapter.prepare_sets(cell, copies)


def _with_fresh_operands(
    adapter: Adapter, given: operands.Operands, call: Call, loop: Loop, seed: int
) -> Verdict:
    """Verify once more with other values, so that a remembered result is found out.

    Where the library computes on our own arrays their values change under it; where it made copies
    the operands are prepared anew.
    """
    fresh = operands.reordered(given)
    if call.sets is None and call.addresses.get("A") == given.A.ctypes.data:
        given.A[...] = fresh.A
        if given.B is not given.A:
            given.B[...] = fresh.B
    else:
        call = adapter.prepare(given.cell, fresh)
        loop = compile_loop(call)
    _poison(call)
    loop.batch(1)
    return verify(fresh, _result(call, loop), seed)


def _result(call: Call, loop: Loop) -> np.ndarray:
    return np.asarray(call.result(loop.names))


def _poison(call: Call) -> None:
    """Overwrite the result, so that one which is never computed shows (beta: restore C0)."""
    if call.poison:
        call.poison()


def _judge(verdicts: Document, when: str, verdict: Verdict) -> None:
    verdicts[when] = verdict.to_json()
    if not verdict.ok:
        words = {"before": "before the timing", "after": "after the timing"}
        moment = words.get(when, "with fresh operands: a remembered result?")
        raise Ended("wrong", f"{verdict.detail or verdict.problem} ({moment})")


def _identify(adapter: Adapter, job: Document, document: Document) -> None:
    """What the library says it is; refuses a BLAS other than the one the backend promises."""
    identity = adapter.identify()
    document["unknown"].update(
        {f"identity.{key}": reason for key, reason in identity.pop("unknown", {}).items()}
    )
    identity["python"] = platform.python_version()
    document["identity"] = identity
    problem = libraries.promised(job.get("blas"), identity.get("library"))
    if problem:
        raise Ended("env-failed", problem)


def _first_only(
    document: Document, job: Document, adapter: Adapter, cell: Cell, expires: Expires
) -> None:
    """Side measurements that one process of a run is enough for."""
    document["call_overhead_ns"] = document["against_float32"] = None
    if job["index"] != 0:
        for key in ("call_overhead_ns", "against_float32"):
            document["unknown"][key] = "measured by the run's first process"
        return
    document["call_overhead_ns"] = _overhead(adapter, cell, expires)
    ratio, reason = _against_float32(adapter, cell, expires)
    document["against_float32"] = ratio
    if reason:
        document["unknown"]["against_float32"] = reason


def _overhead(adapter: Adapter, cell: Cell, expires: Expires) -> float | None:
    """Time of the same call on the smallest product: what Python and the dispatch cost, in ns."""
    small = replace(cell, shape=(2,) * len(cell.shape), options=_plain(cell))
    return None if expires(0.5) else _per_call(adapter, small, 300_000)


def _against_float32(adapter: Adapter, cell: Cell, expires: Expires) -> tuple[float | None, str]:
    """How many times longer a product of at most 256 takes in this dtype than in float32."""
    if cell.dtype == "float32":
        return None, "the cell is float32"
    shape = tuple(min(size, PROBE_SIZE) for size in cell.shape)
    if cell.routine != "gemm" or min(shape) < 64:
        return None, "compared for gemm of 64 and more only"
    same = replace(cell, shape=shape, options=_plain(cell))
    single = replace(same, dtype="float32")
    if adapter.unsupported(single):
        return None, "the library has no float32"
    if expires(1.0):
        return None, "no time left in the budget"
    times = [_per_call(adapter, single, 3_000_000), _per_call(adapter, same, 3_000_000)]
    return times[1] / max(times[0], 1.0), ""


def _plain(cell: Cell) -> Options:
    """The options that keep the kind of call but not its size or placement."""
    options = cell.options
    return Options(trans=options.trans, alpha=options.alpha, beta=options.beta, alloc=options.alloc)


def _per_call(adapter: Adapter, cell: Cell, batch_ns: int) -> float:
    """Median time of a call over five batches of at least `batch_ns`, in ns."""
    loop = compile_loop(adapter.prepare(cell, operands.make(cell, 0)))
    loop.batch(1)
    inner = 1
    while (elapsed := loop.batch(inner)) < batch_ns and inner < 1 << 16:
        inner = max(inner + 1, min(inner * 10, inner * batch_ns // max(elapsed, 1) + 1))
    return median(loop.batch(inner) for _ in range(5)) / inner


def _flag(document: Document, cell: Cell, settings: Document) -> None:
    flags = document["flags"]
    elapsed = document["samples"]["elapsed_ns"]
    if document["effective_precision"] != cell.dtype:
        flags.append("reduced-precision")
    if document["stop"] == "budget":
        flags.append("budget-spent")
    ratio = document["against_float32"]
    if ratio is not None and ratio > SLOW:
        flags.append("slow-path")
    if median(elapsed) < 0.5e9 * settings["batch_s"]:
        flags.append("short-samples")
    flags += judge(document["threads"], call_s=median(elapsed) / document["inner"] / 1e9)
