"""Does an adapter keep its promises? Run inside a backend's environment by test_adapters.py:

    python conformance.py ADAPTER DEVICE OPTIONS_AS_JSON SHAPES

It goes through dtypes, routines and options and prints one JSON document: for every cell the
reason why it is unsupported, or what is wrong with it; and what the adapter says it is.
SHAPES is "many" or, for adapters that compile each of them, "few".
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from gemmgrid.measure import adapters
from gemmgrid.measure.adapters.base import Adapter, Call
from gemmgrid.measure.invocation import operands
from gemmgrid.records.cell import CALLS, DTYPES, MODES, Cell, Options

GEMM_OPTIONS: list[dict[str, Any]] = [
    *({"trans": trans} for trans in ("nt", "tn", "tt", "nc", "cn", "cc", "ct")),
    *({"layout": "F", "trans": trans} for trans in ("nn", "nt", "tn", "cc", "tc")),
    *({"pad": 5, "layout": layout} for layout in "CF"),
    *({"batch": 3, **more} for more in ({}, {"trans": "tn"}, {"trans": "nc"}, {"pad": 5})),
    {"batch": 3, "layout": "F"},
    {"batch": 3, "alpha": 2.0, "beta": 1.0},
    {"alpha": 2.0},
    {"beta": 1.0},
    {"alpha": -0.5, "beta": 2.0, "trans": "tn"},
    {"alpha": -0.5, "beta": 2.0, "layout": "F"},
    {"inputs": "zeros"},
    {"inputs": "integers"},
    {"unaligned": True},
    {"alloc": True},
    {"alloc": True, "trans": "ct"},
    {"alloc": True, "layout": "F"},
    {"alloc": True, "alpha": 2.0},
    {"cold": True},
    {"cold": True, "alloc": True},
    {"cold": True, "beta": 1.0},
    *({"call": call} for call in CALLS[1:]),
    {"call": "einsum", "batch": 3},
    {"call": "operator", "trans": "tn"},
    *({"mode": mode} for mode in MODES[1:]),
]
GEMV_OPTIONS: list[dict[str, Any]] = [
    {},
    *({"trans": trans} for trans in ("tn", "cn")),
    *({"layout": "F", "trans": trans} for trans in ("nn", "tn", "cn")),
    *({"pad": 5, "layout": layout} for layout in "CF"),
    {"pad": 5, "trans": "tn"},
    {"alpha": 2.0, "beta": 1.0},
    {"alloc": True},
    {"unaligned": True},
    {"cold": True},
]
DOT_OPTIONS: list[dict[str, Any]] = [
    {},
    {"reuse": True},
    {"unaligned": True},
    {"layout": "F"},
    {"pad": 5},
    {"cold": True},
]
EPSILON = {
    "float16": 2**-10,
    "bfloat16": 2**-7,
    "float32": 2**-23,
    "float64": 2**-52,
    "complex64": 2**-23,
    "complex128": 2**-52,
}
ZERO_COPY = {"numpy", "scipy", "cblas", "torch"}
"""Adapters that promise to compute in the operands' own memory (torch: but for bfloat16)."""


def cells(many: bool) -> Iterator[Cell]:
    shapes = [
        (70, 50, 90),
        (7, 5, 9),
        (1, 40, 3),
        (33, 1, 17),
        (5, 6, 1),
        (1, 1, 1),
        (300, 200, 100),
    ]
    for dtype in DTYPES:
        for shape in shapes if many else shapes[:3]:
            yield Cell("gemm", dtype, shape, 1)
        for options in GEMM_OPTIONS:
            yield Cell("gemm", dtype, (23, 19, 37), 1, Options(**options))
        for options in ({"reuse": True}, {"reuse": True, "trans": "nt"}):
            yield Cell("gemm", dtype, (24, 24, 24), 1, Options(**options))
        for options in GEMV_OPTIONS:
            yield Cell("gemv", dtype, (23, 37), 1, Options(**options))
        for options in DOT_OPTIONS:
            yield Cell("dot", dtype, (101,), 1, Options(**options))


def reference(cell: Cell, given: operands.Operands) -> tuple[np.ndarray, np.ndarray]:
    """The exact result, and for each element the sum of absolute values behind it."""
    wide = np.complex128 if cell.is_complex else np.float64
    A, B = given.A.astype(wide), given.B.astype(wide)
    if cell.routine == "dot":
        return A @ B, np.abs(A) @ np.abs(B)
    trans = cell.options.trans
    A = turned(A, trans[0])
    B = turned(B, trans[1]) if cell.routine == "gemm" else B
    exact, size = cell.options.alpha * (A @ B), abs(cell.options.alpha) * (np.abs(A) @ np.abs(B))
    if given.C0 is not None:
        exact = exact + cell.options.beta * given.C0
        size = size + abs(cell.options.beta) * np.abs(given.C0)
    return exact, size


def turned(matrix: np.ndarray, letter: str) -> np.ndarray:
    if letter == "n":
        return matrix
    matrix = np.swapaxes(matrix, -1, -2)
    return matrix.conj() if letter == "c" else matrix


def wrong(cell: Cell, given: operands.Operands, found: np.ndarray) -> str | None:
    exact, size = reference(cell, given)
    carried = "float32" if cell.dtype == "bfloat16" else cell.dtype
    if found.shape != exact.shape or found.dtype != carried:
        return f"result is {found.dtype}{found.shape}, not {carried}{exact.shape}"
    if cell.dtype == "bfloat16" and (found.view(np.uint32) & 0xFFFF).any():
        return "result has more digits than a bfloat16"
    # Rounding of the result, and of sums that may be accumulated in the dtype itself.
    bound = EPSILON[cell.dtype] * (2 + cell.depth**0.5) * size * (2 if cell.is_complex else 1)
    with np.errstate(invalid="ignore"):
        off = ~(np.abs(found - exact) <= bound + 1e-300)
    return f"{off.sum()} of {off.size} elements are wrong" if off.any() else None


def run(call: Call, names: dict[str, Any]) -> np.ndarray:
    exec(compile(call.statement, "<statement>", "exec"), names)
    if call.fence:
        exec(call.fence, names)
    return call.result(names)


def undefined(call: Call) -> set[str]:
    """Names that the statement reads and the call does not give."""
    tree = ast.parse(call.statement)
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    made = {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    return used - set(call.names) - made


def check(adapter: Adapter, cell: Cell) -> Iterator[str]:
    given = operands.make(cell, 1)
    if cell.options.cold:
        several = [given, operands.make(cell, 2), operands.make(cell, 3)]
        yield from check_sets(adapter, cell, several)
        return
    call = adapter.prepare(cell, given)
    if undefined(call):
        yield f"statement reads {undefined(call)}, which names lack"
        return
    if set(call.addresses) | set(call.unknown) != set("ABC"):
        yield f"addresses {call.addresses} and unknown {call.unknown} do not cover A, B and C"
    names = dict(call.names)
    if adapter.library == "mlx":
        yield from check_eager(cell, call)
    for attempt in ("first", "second"):
        if call.poison:
            call.poison()
            yield from poisoned(cell, given, call.result(names))
        problem = wrong(cell, given, run(call, names))
        if problem:
            yield f"{attempt} call: {problem}"
    first = call.result(names)
    held = first.copy()
    if call.poison:
        call.poison()
        if not np.array_equal(first, held, equal_nan=True):
            yield "result is a view of memory that later calls overwrite"
    if adapter.library in ZERO_COPY and not (
        adapter.library == "torch" and cell.dtype == "bfloat16"
    ):
        yield from check_no_copies(adapter, cell, given, call)


def check_eager(cell: Cell, call: Call) -> Iterator[str]:
    """MLX is lazy: the statement itself must compute, which shows in the memory that it takes."""
    import mlx.core as mx

    names, before = dict(call.names), mx.get_active_memory()
    exec(compile(call.statement, "<statement>", "exec"), names)
    if mx.get_active_memory() <= before:
        yield "the statement computed nothing"


def poisoned(cell: Cell, given: operands.Operands, found: np.ndarray) -> Iterator[str]:
    if cell.options.beta != 0:
        if not np.array_equal(found, given.C0):
            yield "poison did not put C0 back"
    elif not np.isnan(found).all():
        yield "poison left elements that are not NaN"


def check_no_copies(
    adapter: Adapter, cell: Cell, given: operands.Operands, call: Call
) -> Iterator[str]:
    """The operands' own memory is read in each call, and the result lands in C's."""
    expected = {"A": given.A, "B": given.B, "C": given.C}
    for name, address in call.addresses.items():
        array = expected[name]
        if array is not None and address != array.ctypes.data:
            yield f"{name} is at {address:#x}, the operand at {array.ctypes.data:#x}"
    names = dict(call.names)
    if call.poison:
        call.poison()
    run(call, names)
    options = cell.options
    makes_new = options.alloc or options.call not in ("auto", "out", "direct")
    makes_new |= options.mode == "compiled"
    if given.C is not None and not makes_new and wrong(cell, given, given.C.copy()):
        yield "the result is not in C's own memory"
    if adapter.library == "scipy" and cell.routine != "dot" and not cell.options.alloc:
        if call.poison:
            call.poison()
        returned = eval(call.statement, names)
        if not np.shares_memory(returned, given.C):
            yield "SciPy copied C"
    given.A[...] = operands.make(cell, 7).A
    if call.poison:
        call.poison()
    problem = wrong(cell, given, run(call, names))
    if problem:
        yield f"a changed A was not read: {problem}"


def check_sets(adapter: Adapter, cell: Cell, several: list[operands.Operands]) -> Iterator[str]:
    call = adapter.prepare_sets(cell, several)
    if not call.sets or len(call.sets) != len(several):
        yield f"prepare_sets gave {len(call.sets or [])} sets for {len(several)} operands"
        return
    fixed = {name for name in call.names if name not in call.sets[0]}
    if len(call.sets[0]) > 4:
        yield f"more names rotate than operands: {sorted(call.sets[0])} (fixed: {sorted(fixed)})"
    for index, (one, given) in enumerate(zip(call.sets, several, strict=True)):
        if call.poison:
            call.poison()
        names = {**call.names, **one}
        problem = wrong(cell, given, run(call, names))
        if problem:
            yield f"set {index}: {problem}"


def report(adapter: Adapter, cell: Cell) -> dict[str, Any]:
    reason = adapter.unsupported(cell)
    if reason is None:
        try:
            problems = list(check(adapter, cell))
        except Exception as error:
            problems = [f"raises {type(error).__name__}: {error}"]
        return {"cell": cell.name, "unsupported": None, "problems": problems}
    problems = [] if len(reason) > 10 else [f"reason {reason!r} explains nothing"]
    try:
        adapter.prepare(cell, operands.make(cell, 1))
        problems.append("prepare accepts what unsupported refuses")
    except ValueError as error:
        if reason not in str(error):
            problems.append(f"prepare says {error}, unsupported says {reason}")
    return {"cell": cell.name, "unsupported": reason, "problems": problems}


def main(name: str, device: str, options: str, shapes: str) -> None:
    adapter = adapters.load(name)(device, json.loads(options))
    adapter.set_threads(1)
    threads = {"1": adapter.library_threads()}
    found = [report(adapter, cell) for cell in cells(shapes == "many")]
    identity = adapter.identify()
    adapter.set_threads(2)
    threads["2"] = adapter.library_threads()
    print(json.dumps({"cells": found, "identity": identity, "threads": threads}))


if __name__ == "__main__":
    main(*sys.argv[1:])
