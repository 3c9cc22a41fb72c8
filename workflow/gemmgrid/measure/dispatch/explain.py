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
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gemmgrid.measure.dispatch.expressions import Expression, ExpressionError, parse
from gemmgrid.records.cell import DTYPES, Cell, Options

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
    options = _arguments(arguments)
    try:
        expression = parse(options.expr, options.adapter)
        with tempfile.TemporaryDirectory(prefix="gemmgrid-explain-") as folder:
            explanation = _explain(expression, options, Path(folder))
    except (ExpressionError, ExplainError) as error:
        print(f"explain: {error}", file=sys.stderr)
        return LANGUAGE_ERROR
    if options.json:
        print(json.dumps(explanation, allow_nan=False))
    else:
        from gemmgrid.measure.dispatch.prose import tell

        print(tell(explanation))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # some libraries crash or hang in their destructors, after all is said


def _explain(expression: Expression, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    from gemmgrid.measure.dispatch.switches import switch_on
    from gemmgrid.measure.environment import THREADS

    for variable in THREADS:
        os.environ.setdefault(variable, str(options.threads))
    switch_on(options.adapter, options.device, folder)
    from gemmgrid.measure import adapters
    from gemmgrid.measure.dispatch.evidence import observe
    from gemmgrid.measure.dispatch.hidden import Asked
    from gemmgrid.measure.dispatch.process import plain

    try:
        adapter = adapters.load(options.adapter)(options.device, options.options)
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        raise ExplainError(f"{options.backend} cannot be used here: {error}") from error
    adapter.set_threads(options.threads)
    run, memory, statement, routine = _runner(expression, adapter, options)
    _first(run, expression)
    stacked = any(name in ("P", "Q") for name in expression.names)
    asked = Asked(options.dtype, routine, STACK if stacked else 1, options.adapter)
    evidence = observe(
        run, asked, operands=memory, device=options.device, blas=options.blas, folder=folder
    )
    explained = {
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
    result: dict[str, Any] = plain(explained)
    return result


def _first(run: Callable[[], None], expression: Expression) -> None:
    """Whether the library takes the expression at all, before anything is watched."""
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
    from gemmgrid.measure.dispatch.operands import memories
    from gemmgrid.measure.loop import compile_loop

    if options.adapter == "cblas":
        cell = _cell_of(expression, options)
        call = _prepared(adapter, cell)
        loop = compile_loop(call)

        def run_loop() -> None:
            loop.batch(1)

        return run_loop, memories(call.names), call.statement, cell.routine
    operands: dict[str, Any] = {}
    addresses: dict[str, int] = {}
    for name in expression.names:
        routine, batch, theirs = _CELLS[name]
        m, n, k = options.shape
        shape = (k,) if routine == "dot" else (m, n, k)
        cell = Cell(routine, options.dtype, shape, options.threads, Options(batch=batch))
        call = _prepared(adapter, cell)
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
    from gemmgrid.measure import operands

    unsupported = adapter.unsupported(cell)
    if unsupported:
        raise ExplainError(unsupported)
    return adapter.prepare(cell, operands.make(cell, 1))


def _library(
    adapter: str, device: str
) -> tuple[dict[str, Callable[..., Any]], Callable[[Any], Any]]:
    """The functions of the language as the library has them, and how to wait for a result."""
    from importlib import import_module

    from gemmgrid.measure.dispatch.expressions import FUNCTIONS

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


def _arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="explain", description=__doc__)
    parser.add_argument("--expr", required=True, help="such as 'A @ B.T'")
    parser.add_argument("--backend", required=True, help="its name, for the heading")
    parser.add_argument("--adapter", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--blas", help="the BLAS family that the backend promises")
    parser.add_argument("--options", type=_options, default={}, help="the adapter's, as JSON")
    parser.add_argument("--dtype", default="float32", choices=DTYPES)
    parser.add_argument("--shape", type=_shape, default=(512, 512, 512), help="512 or 512x256x128")
    parser.add_argument("--threads", type=_positive, default=1)
    parser.add_argument("--json", action="store_true", help="the record instead of words")
    return parser.parse_args(arguments)


def _options(text: str) -> dict[str, Any]:
    options = json.loads(text or "{}")
    if not isinstance(options, dict):
        raise argparse.ArgumentTypeError("a JSON object, such as {}")
    return options


def _shape(text: str) -> tuple[int, int, int]:
    sizes = [_positive(part) for part in text.lower().replace("×", "x").split("x")]
    if len(sizes) == 1:
        sizes *= 3
    if len(sizes) != 3:
        raise argparse.ArgumentTypeError(f"{text!r} is neither n nor m×n×k")
    m, n, k = sizes
    return m, n, k


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)
