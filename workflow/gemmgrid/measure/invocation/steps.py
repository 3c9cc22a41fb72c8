"""The order of a measurement inside one process, from the import to the last verification."""

from __future__ import annotations

import platform
import resource
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from gemmgrid.measure.invocation.threads import Census, judge

_CENSUS = Census()  # before the library is imported: it may change the affinity
_IMPORTS_BEGAN = time.perf_counter()

import numpy as np  # noqa: E402

from gemmgrid.measure import adapters, libraries  # noqa: E402
from gemmgrid.measure.adapters.base import Adapter, Call  # noqa: E402
from gemmgrid.measure.invocation import beside, operands, sampling, selftest  # noqa: E402
from gemmgrid.measure.invocation.componentwise import componentwise, digest  # noqa: E402
from gemmgrid.measure.invocation.counters import Counters  # noqa: E402
from gemmgrid.measure.invocation.loop import Loop, compile_loop, describe_clock  # noqa: E402
from gemmgrid.measure.invocation.outcome import NO_TIME, Budget, Ended  # noqa: E402
from gemmgrid.measure.invocation.verify import Verdict, verify  # noqa: E402
from gemmgrid.measure.probe.probe import Probe  # noqa: E402
from gemmgrid.records.cell import Cell  # noqa: E402

Document = dict[str, Any]

SIDE_S = 1.5
"""Time that the first process keeps back for its side measurements."""
ERROR_S = 0.2
"""Time that the componentwise error may need."""
SLOW = 12.0
"""A dtype this many times slower than float32 in the same library takes a slow path.

float64 costs twice float32, complex64 four times, complex128 eight times.
"""


def measure(
    job: Document, document: Document, stage: Callable[[str], None], budget: Budget
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
    _poison(call)
    _CENSUS.start()
    warmup = sampling.warm_up(loop, settings, budget.expires)
    document["warmup"], document["inner"] = warmup.to_json(), warmup.inner
    batch_s = warmup.last_ns / 1e9
    document["selftest"] = selftest.doubling(loop, warmup.inner, budget.expires, batch_s)

    stage("sample")
    probe = Probe(job["device"], cell.threads)
    document["probe"] = probe.record
    counters = Counters()
    if budget.ends(batch_s):
        # Of a call so slow that there is no time for another, the warm-up's is the sample.
        taken = sampling.Samples([0], [warmup.last_ns], None, "budget")
        probe.skip("before", NO_TIME)
    else:
        _poison(call)
        probe.around("before")
        counters.start()
        _CENSUS.start()
        kept_s = min(SIDE_S, job["soft_s"] / 4) if job["index"] == 0 else 0.0
        taken = sampling.take_samples(
            loop, warmup.inner, settings, lambda seconds: budget.expires(seconds + kept_s)
        )
        counters.stop()
    _CENSUS.stop()
    document["counters"] = counters.record()
    probe.around("after")
    document["threads"] = _CENSUS.result(cell.threads, adapter.library_threads())
    document["samples"], document["stop"] = taken.to_json(), taken.stop

    stage("verify-after")
    if cell.options.beta != 0:
        _poison(call)
        loop.batch(1)
    result = _result(call, loop)
    _judge(verdicts, "after", verify(given, result, seed + 1))
    document["result"] = _describe(given, result, job, document["unknown"], budget)
    document["effective_precision"] = verdicts["after"]["precision"]
    tests = [document["selftest"]]
    if budget.ends(batch_s):
        document["unknown"]["leftover"] = NO_TIME
    else:
        document["leftover"] = selftest.leftover(
            loop, warmup.inner, lambda: _result(call, loop), budget.expires
        )
        tests.append(document["leftover"])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    document["peak_rss_bytes"] = peak if sys.platform == "darwin" else peak * 1024
    if budget.ends(document["setup_s"]):
        document["unknown"]["operands.unchanged"] = NO_TIME
    else:
        document["operands"]["unchanged"] = _unchanged(given, seed)
    if budget.ends(batch_s / warmup.inner + document["setup_s"]):
        document["unknown"]["verify.fresh"] = NO_TIME
    else:
        _judge(verdicts, "fresh", _with_fresh_operands(adapter, given, call, loop, seed + 2))
    # Behind the samples: what one process does before them, all must do.
    beside.first_only(document, job, adapter, cell, budget)
    beside.probe_memory(probe, cell, job, budget)

    for test in tests:
        if not test["ok"]:
            raise Ended("implausible", test["reason"])
    _flag(document, cell, settings)


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


def _unchanged(given: operands.Operands, seed: int) -> bool:
    """True if the operands are what their seed gives; else ends as `wrong`: what was verified was
    another product than the cell's, which may be an easier one."""
    made = operands.make(given.cell, seed)
    for name in ("A", "B", "C0"):
        if not np.array_equal(getattr(given, name), getattr(made, name)):
            raise Ended("wrong", f"{name} is not what its seed gives: an input was changed")
    return True


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


def _describe(
    given: operands.Operands, result: np.ndarray, job: Document, unknown: Document, budget: Budget
) -> Document:
    """A digest of the bits; and from a run's first process how far its elements are off."""
    error, count = None, 0
    if job["index"]:
        unknown["result.componentwise"] = beside.FIRST
    elif budget.ends(ERROR_S):
        unknown["result.componentwise"] = NO_TIME
    else:
        error, count = componentwise(given, result, job["seed"])
        if error is None:
            unknown["result.componentwise"] = "an element that must be zero is not"
    return {"digest": digest(result), "componentwise": error, "elements": count}


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
