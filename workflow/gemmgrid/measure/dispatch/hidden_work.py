"""Work that an expression does not show: copies, conversions, a call for each slice.

Seen, not guessed: BLAS was handed an address that lies in none of the operands, so it read a copy;
an operand of 16 bits arrived as 32; one product became many calls.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gemmgrid.measure.dispatch.trace.perf_sampling import Samples
from gemmgrid.measure.dispatch.trace.routine_calls import TracedCall
from gemmgrid.measure.dispatch.trace.signatures import operand_elements
from gemmgrid.measure.dispatch.watch import Watched

MANY = 16
"""Calls of a vector routine under one product from which their number is worth a remark."""
CONVERTERS = ("npy_half_to_float", "npy_float_to_half", "npy_floatbits_to_halfbits")
"""NumPy's functions that convert one float16 element."""
SMALL_FLOATS = ("float16", "bfloat16")
_VECTOR_ROUTINES = ("dot", "dotu", "dotu_sub", "dotc", "dotc_sub", "axpy", "gemv")
_MATRIX_ROUTINES = ("gemm", "gemm3m", "syrk", "herk")
_SHARED = ("syrk", "herk")


@dataclass(frozen=True)
class Memory:
    """Where an operand lies: the bytes from `start` to before `end`."""

    start: int
    end: int

    def holds(self, address: int) -> bool:
        return self.start <= address < self.end


@dataclass(frozen=True)
class Asked:
    """What the expression asks for; an empty routine means that it does not say."""

    dtype: str
    routine: str = ""
    batch: int = 1
    library: str = "numpy"
    output: str | None = None
    """Name of the operand that the result is written to, None where each call makes a new one."""


def find(seen: Watched, asked: Asked, operands: Mapping[str, Memory]) -> list[dict[str, Any]]:
    """The hidden work in what was seen: {"what", "count", "bytes", "explanation"} for each kind."""
    found = [
        _copies(seen.calls, asked, operands),
        _result_copies(seen.calls, asked, operands),
        _upcasts(seen, asked),
        *_extra_calls(seen, asked),
    ]
    return [work for work in found if work is not None]


def _copies(
    calls: Iterable[TracedCall], asked: Asked, operands: Mapping[str, Memory]
) -> dict[str, Any] | None:
    """Inputs that BLAS read from memory which is no operand's."""
    if not operands:
        return None
    count = size = 0
    routines = set()
    for call in calls:
        elements = operand_elements(call.routine.operation, call.arguments or {})
        for name, amount in elements.items():
            address = call.addresses.get(name)
            if address and not any(memory.holds(address) for memory in operands.values()):
                count += call.count
                size += amount * (call.routine.item_bytes or 0) * call.count
                routines.add(call.routine.name)
    if not count:
        return None
    which = "an operand was" if count == 1 else f"{count} operands were"
    cure = ""
    if asked.library == "scipy":
        cure = "; SciPy takes Fortran-ordered arrays: hand over views, as in sgemm(1, B.T, A.T).T"
    return _work(
        "operand-copy",
        count,
        size,
        f"{which} copied before {' and '.join(sorted(routines))}, which read memory that belongs "
        f"to none of your arrays{cure}",
    )


def _result_copies(
    calls: Iterable[TracedCall], asked: Asked, operands: Mapping[str, Memory]
) -> dict[str, Any] | None:
    """Results that BLAS wrote elsewhere although an array was given for them."""
    target = operands.get(asked.output or "")
    if target is None:
        return None
    count = size = 0
    for call in calls:
        address = call.addresses.get("C") or call.addresses.get("y")
        if call.routine.operation.startswith("dot") or not address or target.holds(address):
            continue
        arguments = call.arguments or {}
        elements = arguments.get("m", arguments.get("n", 0)) * arguments.get("n", 1)
        if call.routine.operation == "gemv":
            elements = arguments["n" if arguments.get("transa") in ("t", "c") else "m"]
        count += call.count
        size += elements * (call.routine.item_bytes or 0) * call.count
    if not count:
        return None
    return _work(
        "operand-copy",
        count,
        size,
        f"the result was computed in other memory than {asked.output}, and copied there or left",
    )


def _upcasts(seen: Watched, asked: Asked) -> dict[str, Any] | None:
    if seen.program and seen.program.conversions:
        conversions = seen.program.conversions
        kinds = ", ".join(sorted({f"{one['from']} to {one['to']}" for one in conversions}))
        size = sum(one["bytes"] for one in conversions)
        return _work(
            "upcast", len(conversions), size, f"XLA converts before it multiplies: {kinds}"
        )
    if asked.dtype not in SMALL_FLOATS:
        return None
    for call in seen.calls:
        elements = operand_elements(call.routine.operation, call.arguments or {})
        if call.routine.type in ("s", "d") and elements:
            size = sum(elements.values()) * (call.routine.item_bytes or 0) * call.count
            return _work(
                "upcast",
                len(elements) * call.count,
                size,
                f"{asked.dtype} operands were converted for {call.routine.name}",
            )
    return _element_conversions(seen.samples)


def _element_conversions(samples: Samples) -> dict[str, Any] | None:
    share = sum(n for place, n in samples.places.items() if place.function in CONVERTERS) / max(
        1, samples.working
    )
    if share < 0.05:
        return None
    return _work(
        "upcast",
        None,
        None,
        f"each float16 element is converted to float32 every time it is used ({share:.0%} of the "
        f"time)",
    )


def _extra_calls(seen: Watched, asked: Asked) -> Iterator[dict[str, Any]]:
    """Other or more calls than the one that the expression reads like."""
    shared, count = _calls(seen, _SHARED)
    if shared and asked.routine in ("", "gemm"):
        yield _work(
            "syrk",
            count,
            None,
            f"both operands are the same matrix, so {shared} computed one triangle (half the work "
            f"of gemm) and the other was filled in by copying",
        )
    name, count = _calls(seen, _MATRIX_ROUTINES)
    if asked.batch >= 2 and count >= 2:
        text = f"one {name} for each of the {asked.batch} matrices of the stack"
        yield _work("per-slice", count, None, text)
    name, count = _calls(seen, _VECTOR_ROUTINES)
    if count >= MANY:
        yield _work(
            "many-calls",
            count,
            None,
            f"{count:,} calls of {name} make up this product; np.tensordot or a reshape to two "
            f"dimensions makes it one gemm",
        )
    count = sum(call.routine == "reorder" for call in seen.logged)
    if count:
        text = "oneDNN first copied operands into a layout or type of its own"
        yield _work("operand-copy", count, None, text)


def _calls(seen: Watched, operations: Collection[str]) -> tuple[str, int]:
    """The first routine among these operations that was called, and the calls of all of them."""
    calls = [call for call in seen.calls if call.routine.operation in operations]
    return calls[0].routine.name if calls else "", sum(call.count for call in calls)


def _work(what: str, count: int | None, size: int | None, explanation: str) -> dict[str, Any]:
    return {"what": what, "count": count, "bytes": size, "explanation": explanation}
