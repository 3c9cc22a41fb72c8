"""From what was seen to what is said: routine and kernel, each with how it is known.

traced      the call was intercepted
logged      the library's own log, profiler or compiled program names it
sampled     the processor was found there, in enough samples
documented  the source says so: expected, not seen
unknown     with the reason
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from gemmgrid.measure.dispatch import documented
from gemmgrid.measure.dispatch.proof import LEAST_SHARE, busiest, no_blas, plain_path
from gemmgrid.measure.dispatch.trace.perf_sampling import GENERATED, is_stripped
from gemmgrid.measure.dispatch.trace.routine_calls import TracedCall
from gemmgrid.measure.dispatch.watch import ENOUGH_SAMPLES, Watched

LISTED = 8
_ROUTINE = ("symbol", "routine", "library", "caller", "args", "count", "reason", "source")
_KERNEL = ("core", "count", "share", "samples", "library", "reason", "source")


def routines(seen: Watched, expected: documented.Expected | None) -> list[dict[str, Any]]:
    """The routines, in the record's form. Empty where sampling proves that none was called."""
    if seen.calls:
        return _traced_routines(seen)
    if seen.logged:
        return _logged_routines(seen)
    if seen.program and seen.program.products:
        return _program_routines(seen)
    if no_blas(seen):
        return []
    if expected and expected.routine:
        return [_entry("documented", symbol=expected.routine, source=expected.source)]
    return [_entry("unknown", reason=_why_no_routine(seen))]


def _traced_routines(seen: Watched) -> list[dict[str, Any]]:
    calls = sorted(seen.calls, key=_importance)
    entries = [
        _entry(
            "traced",
            symbol=call.routine.symbol,
            routine=call.routine.name,
            library=plain_path(call.library),
            caller=plain_path(call.caller),
            args=call.arguments,
            count=call.count,
            reason=_remark(call, seen),
        )
        for call in calls[:LISTED]
    ]
    rest = sum(call.count for call in calls[LISTED:])
    if rest:
        entries[-1]["reason"] = (
            f"and {rest} more calls in {len(calls) - LISTED} other sets of arguments"
        )
    return entries


def _importance(call: TracedCall) -> tuple[int, int]:
    order = ("gemm", "syrk", "herk", "gemv", "dot")
    place = next((i for i, word in enumerate(order) if word in call.routine.operation), len(order))
    return place, -call.count


def _remark(call: TracedCall, seen: Watched) -> str | None:
    """What is not known about these calls."""
    if call.unread:
        return f"arguments of the first {call.count - call.unread:,} calls; the others were counted"
    if call.arguments is not None:
        return None
    same = any(c.arguments and c.routine.symbol == call.routine.symbol for c in seen.calls)
    if same:
        return "only counted: the arguments of the first calls alone are kept"
    return "calls of this routine are counted, its arguments are not read"


def _logged_routines(seen: Watched) -> list[dict[str, Any]]:
    calls = [call for call in seen.logged if call.routine != "reorder"] or seen.logged
    groups = Counter((c.library, c.symbol, c.routine, repr(c.arguments)) for c in calls)
    entries = []
    for (library, symbol, routine, key), count in groups.most_common(LISTED):
        arguments = next(c.arguments for c in calls if repr(c.arguments) == key)
        entries.append(
            _entry(
                "logged",
                symbol=symbol,
                routine=routine,
                library=library,
                args=arguments or None,
                count=count,
            )
        )
    return entries


def _program_routines(seen: Watched) -> list[dict[str, Any]]:
    assert seen.program
    entries = []
    for product in seen.program.products[:LISTED]:
        arguments = {"type": product.type, "shape": list(product.shape)}
        if product.operands:
            arguments["operands"] = list(product.operands)
        entries.append(
            _entry(
                "logged",
                symbol=product.carried_by or product.operation,
                routine=product.operation,
                library="XLA's optimised program",
                args=arguments,
                count=1,
            )
        )
    return entries


def _why_no_routine(seen: Watched) -> str:
    if "trace" in seen.problems:
        return seen.problems["trace"]
    if not seen.slots_watched:
        return "nothing in this process imports a BLAS routine, and none was seen"
    watched = f"none of the {seen.slots_watched} watched addresses of BLAS routines was called"
    if "sample" in seen.problems:
        return f"{watched}; who did the work is not known: {seen.problems['sample']}"
    return f"{watched}; who did the work cannot be told from {seen.samples.total} samples"


def kernels(seen: Watched, expected: documented.Expected | None) -> list[dict[str, Any]]:
    """The kernels, in the record's form, the one that did the work first."""
    if seen.kernels:
        return [
            _kernel(
                "traced",
                kernel.name,
                core=kernel.core,
                count=None if seen.running_s else kernel.count,
                library=plain_path(kernel.library),
                reason=_cut_short(seen),
            )
            for kernel in seen.kernels[:LISTED]
        ]
    if seen.device_kernels:
        return [
            _kernel("logged", kernel.name, count=kernel.count, share=kernel.share)
            for kernel in seen.device_kernels[:LISTED]
        ]
    named = Counter((c.library, c.kernel) for c in seen.logged if c.kernel)
    if named:
        return [
            _kernel("logged", name, count=count, library=library)
            for (library, name), count in named.most_common(LISTED)
            if name
        ]
    sampled = _sampled_kernels(seen)
    if sampled:
        return sampled
    if expected and expected.kernel:
        return [_kernel("documented", expected.kernel, source=expected.source)]
    return [_kernel("unknown", None, reason=_why_no_kernel(seen))]


def _sampled_kernels(seen: Watched) -> list[dict[str, Any]]:
    busy = busiest(seen)
    whole = seen.samples.total
    entries = []
    for place, share in busy[:3]:
        if share < LEAST_SHARE:
            break
        if place.function is None:
            stripped = "is stripped" if is_stripped(place.library) else "does not name it"
            reason = (
                f"{share:.0%} of the time was spent in code of {Path(place.library).name} that has "
                f"no name: the library {stripped}"
            )
            entries.append(
                _kernel("unknown", None, share=share, library=place.library, reason=reason)
            )
        else:
            entries.append(
                _kernel(
                    "sampled",
                    place.function,
                    share=share,
                    samples=whole,
                    library=None if place.function == GENERATED else plain_path(place.library),
                    reason=_one_thread(seen),
                )
            )
    return entries


def _one_thread(seen: Watched) -> str | None:
    if seen.waiting_share is None:
        return None
    return (
        f"sampled on one thread: with all threads {seen.waiting_share:.0%} of the time was waiting"
    )


def _why_no_kernel(seen: Watched) -> str:
    library = next((call.library for call in seen.calls), None)
    reasons = [text for key, text in seen.problems.items() if key in (library, "trace")]
    if "sample" in seen.problems:
        reasons.append(seen.problems["sample"])
    else:
        reasons.append(
            f"too short a product to sample: no function of it had {LEAST_SHARE:.0%} of at least "
            f"{ENOUGH_SAMPLES} samples ({seen.samples.working} taken)"
        )
    return "; ".join(dict.fromkeys(reasons))


def _cut_short(seen: Watched) -> str | None:
    if seen.running_s is None:
        return None
    return f"not counted to the end: the product still ran after {seen.running_s:.1f} s"


def _entry(evidence: str, **values: Any) -> dict[str, Any]:
    return {"evidence": evidence, **dict.fromkeys(_ROUTINE), **values}


def _kernel(evidence: str, name: str | None, **values: Any) -> dict[str, Any]:
    return {"evidence": evidence, "name": name, **dict.fromkeys(_KERNEL), **values}
