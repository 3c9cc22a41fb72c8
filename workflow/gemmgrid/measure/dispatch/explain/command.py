"""`explain`: what runs under one expression, and how we know, for people who just want to know.

    python -s -m gemmgrid.measure.dispatch explain --expr "A @ B.T" --backend numpy-openblas \
        --adapter numpy --dtype float32 --shape 512 --threads 1

Shapes: 512 means m = n = k = 512, 512x256x128 means m, n, k: A is m×k, B is k×n, x and y have k
elements, P and Q are stacks of 8 such matrices.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gemmgrid.measure.dispatch.explain import arguments as command_line
from gemmgrid.measure.dispatch.explain.expressions import Expression, ExpressionError, parse
from gemmgrid.records.cell import Cell, Options

STACK = 8
LANGUAGE_ERROR = 2
_CELLS = {
    "A": ("gemm", 1, "A"),
    "B": ("gemm", 1, "B"),
    "x": ("dot", 1, "x"),
    "y": ("dot", 1, "y"),
    "P": ("gemm", STACK, "A"),
    "Q": ("gemm", STACK, "B"),
}
"""For each operand: the routine and batch of the cell that an adapter makes it for, its name."""


class ExplainError(Exception):
    """The expression cannot be run with this backend; the text says why."""


def main(arguments: list[str]) -> int:
    """Print the explanation; 0, or 2 where the request cannot be carried out."""
    options = command_line.read(arguments)
    folder = Path(tempfile.mkdtemp(prefix="gemmgrid-explain-"))
    try:
        _explain(parse(options.expr, options.adapter), options, folder)
    except (ExpressionError, ExplainError) as error:
        print(f"explain: {error}", file=sys.stderr)
        return LANGUAGE_ERROR
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _explain(expression: Expression, options: argparse.Namespace, folder: Path) -> None:
    """Watch the expression and print what was seen; ends the process."""
    from gemmgrid.measure.dispatch.library_logs import switch_on
    from gemmgrid.measure.supervise.environment import THREADS

    for variable in THREADS:
        os.environ.setdefault(variable, str(options.threads))
    switch_on(options.adapter, options.device, folder)
    from gemmgrid.measure import adapters
    from gemmgrid.measure.dispatch.evidence import observe
    from gemmgrid.measure.dispatch.hidden_work import Asked

    try:
        adapter = adapters.load(options.adapter)(options.device, options.options)
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        raise ExplainError(f"{options.backend} cannot be used here: {error}") from error
    adapter.set_threads(options.threads)
    run, memory, statement, routine = _runner(expression, adapter, options)
    stacked = any(name in ("P", "Q") for name in expression.names)

    def show(evidence: dict[str, Any]) -> None:
        _show(expression, statement, adapter, evidence, options)
        shutil.rmtree(folder, ignore_errors=True)
        sys.stdout.flush()
        os._exit(0)  # some libraries crash or hang in their destructors, after all is said

    show(
        observe(
            lambda: _carry_out(run, expression),
            Asked(options.dtype, routine, STACK if stacked else 1, options.adapter),
            operands=memory,
            device=options.device,
            blas=options.blas,
            folder=folder,
            threads=(adapter.set_threads, options.threads),
            finish=show,
        )
    )


def _show(
    expression: Expression,
    statement: str,
    adapter: Any,
    evidence: dict[str, Any],
    options: argparse.Namespace,
) -> None:
    from gemmgrid.measure.dispatch.evidence_process import plain
    from gemmgrid.measure.dispatch.explain.prose import tell

    explanation = plain(
        {
            "expression": expression.text,
            "statement": statement,
            "backend": options.backend,
            "adapter": options.adapter,
            "dtype": options.dtype,
            "shape": list(options.shape),
            "threads": options.threads,
            "library": adapter.identify().get("library"),
            "evidence": evidence,
        }
    )
    print(json.dumps(explanation, allow_nan=False) if options.json else tell(explanation))


def _carry_out(run: Callable[[], None], expression: Expression) -> None:
    """The product, with what the library says against it told in the language's own words."""
    try:
        run()
    except Exception as error:
        text = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ExplainError(
            f"{expression.text} fails: {text[:200]}\n"
            f"(A is m×k, B is k×n, x and y have k elements: where shapes do not fit, a square "
            f"--shape does)"
        ) from error


def _runner(
    expression: Expression, adapter: Any, options: argparse.Namespace
) -> tuple[Callable[[], None], dict[str, Any], str, str]:
    """The product as a function without arguments, where its operands lie, what is run, as what."""
    from gemmgrid.measure.dispatch.watched_operands import memories
    from gemmgrid.measure.invocation.loop import compile_loop

    if options.adapter == "cblas":
        cell = _cell_of(expression, options)
        call = _prepared(adapter, cell)
        loop = compile_loop(call)

        def run_loop() -> None:
            loop.batch(1)

        return run_loop, memories(call.names), call.statement, cell.routine
    calls: dict[str, Any] = {}
    operands: dict[str, Any] = {}
    addresses: dict[str, int] = {}
    for name in expression.names:
        routine, batch, theirs = _CELLS[name]
        m, n, k = options.shape
        shape = (k,) if routine == "dot" else (m, n, k)
        cell = Cell(routine, options.dtype, shape, options.threads, Options(batch=batch))
        if cell.name not in calls:
            calls[cell.name] = _prepared(adapter, cell)
        call = calls[cell.name]
        operands[name] = call.names[theirs]
        told = {"x": "A", "y": "B"}.get(theirs, theirs)
        addresses[name] = call.addresses.get(told, 0)
    functions, wait = _library(options.adapter, options.device)

    def run() -> None:
        wait(expression.evaluate(operands, functions))

    routine = (expression.as_cell() or ("", ""))[0]
    return run, memories(operands, addresses), expression.text, routine


def _cell_of(expression: Expression, options: argparse.Namespace) -> Cell:
    found = expression.as_cell()
    if found is None:
        raise ExplainError(
            f"{expression.text}: a BLAS library called directly knows plain products only: A @ B, "
            f"A @ x, x @ y, with .T or .conj().T on a matrix"
        )
    routine, trans = found
    m, n, k = options.shape
    shape = {"gemm": (m, n, k), "gemv": (m, k), "dot": (k,)}[routine]
    return Cell(routine, options.dtype, shape, options.threads, Options(trans=trans))


def _prepared(adapter: Any, cell: Cell) -> Any:
    from gemmgrid.measure.dispatch.watched_operands import make

    unsupported = adapter.unsupported(cell)
    if unsupported:
        raise ExplainError(unsupported)
    return adapter.prepare(cell, make(cell, 1))


def _library(
    adapter: str, device: str
) -> tuple[dict[str, Callable[..., Any]], Callable[[Any], Any]]:
    """The functions of the language as the library has them, and how to wait for a result."""
    from importlib import import_module

    from gemmgrid.measure.dispatch.explain.expressions import FUNCTIONS

    modules = {
        "numpy": ("np", "numpy"),
        "scipy": ("", "scipy.linalg.blas"),
        "torch": ("torch", "torch"),
        "mlx": ("mx", "mlx.core"),
        "jax": ("jnp", "jax.numpy"),
    }
    prefix, path = modules[adapter]
    module = import_module(path)
    functions = {
        name: getattr(module, name.removeprefix(f"{prefix}.")) for name in FUNCTIONS[adapter]
    }
    if adapter == "mlx":
        return functions, module.eval
    if adapter == "jax":
        return functions, lambda value: value.block_until_ready()
    if adapter == "torch" and device != "cpu":
        synchronize = getattr(module, device).synchronize
        return functions, lambda value: synchronize()
    return functions, lambda value: None
