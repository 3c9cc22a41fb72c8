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
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from gemmgrid.measure.dispatch.explain.expressions import (
    FUNCTIONS,
    Expression,
    ExpressionError,
    parse,
)
from gemmgrid.records.cell import DTYPES, Cell, Options
from gemmgrid.system import cgroup

STACK = 8
LANGUAGE_ERROR = 2
COPIES = 4
"""Times the operands that must fit: the library's own, the result, and what is made in between."""
_CELLS = {
    "A": ("gemm", 1, "A"),
    "B": ("gemm", 1, "B"),
    "x": ("dot", 1, "x"),
    "y": ("dot", 1, "y"),
    "P": ("gemm", STACK, "A"),
    "Q": ("gemm", STACK, "B"),
}
"""For each operand: the routine and batch of the cell that an adapter makes it for, its name."""
_MODULES = {
    "numpy": ("np.", "numpy"),
    "scipy": ("", "scipy.linalg.blas"),
    "torch": ("torch.", "torch"),
    "mlx": ("mx.", "mlx.core"),
    "jax": ("jnp.", "jax.numpy"),
}
"""For each adapter: how the language calls the library, and the module with its functions."""


class ExplainError(Exception):
    """The expression cannot be run with this backend; the text says why."""


def main(arguments: list[str]) -> int:
    """Print the explanation; 0, or 2 where the request cannot be carried out."""
    options = read(arguments)
    folder = Path(tempfile.mkdtemp(prefix="gemmgrid-explain-"))
    try:
        _explain(parse(options.expr, options.adapter), options, folder)
    except (ExpressionError, ExplainError, MemoryError) as error:
        print(f"explain: {error or 'this process may have no more memory'}", file=sys.stderr)
        return LANGUAGE_ERROR
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def read(arguments: list[str]) -> argparse.Namespace:
    """The options; ends the process with exit code 2 where they are wrong."""
    parser = argparse.ArgumentParser(
        prog="explain", description="What runs under one expression, and how we know."
    )
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
    from gemmgrid.measure.dispatch.explain.prose import tell

    asked = ("backend", "adapter", "dtype", "shape", "threads")
    explanation = {
        "expression": expression.text,
        "statement": statement,
        **{name: getattr(options, name) for name in asked},
        "library": adapter.identify().get("library"),
        "evidence": evidence,
    }
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
        _require_memory([cell])
        call = _prepared(adapter, cell)
        loop = compile_loop(call)

        def run_loop() -> None:
            loop.batch(1)

        return run_loop, memories(call.names), call.statement, cell.routine
    cells = {name: _cell_for(name, options) for name in expression.names}
    _require_memory(cells.values())
    calls = {cell.name: _prepared(adapter, cell) for cell in dict.fromkeys(cells.values())}
    operands: dict[str, Any] = {}
    addresses: dict[str, int] = {}
    for name, cell in cells.items():
        call, theirs = calls[cell.name], _CELLS[name][2]
        operands[name] = call.names[theirs]
        addresses[name] = call.addresses.get({"x": "A", "y": "B"}.get(theirs, theirs), 0)
    functions, wait = _library(options.adapter, options.device)

    def run() -> None:
        wait(expression.evaluate(operands, functions))

    routine = (expression.as_cell() or ("", ""))[0]
    return run, memories(operands, addresses), expression.text, routine


def _cell_for(name: str, options: argparse.Namespace) -> Cell:
    """The cell whose operands give the one of that name."""
    routine, batch, _ = _CELLS[name]
    shape = options.shape[2:] if routine == "dot" else options.shape
    return Cell(routine, options.dtype, shape, options.threads, Options(batch=batch))


def _cell_of(expression: Expression, options: argparse.Namespace) -> Cell:
    """The cell that the whole expression is."""
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


def _require_memory(cells: Iterable[Cell]) -> None:
    """ExplainError where the operands and what is made of them would not fit into memory."""
    needed = COPIES * sum(cell.operand_bytes for cell in set(cells))
    free = cgroup.available_bytes()
    if free is not None and needed > free:
        raise ExplainError(
            f"this needs about {needed / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are free: "
            f"give a smaller --shape"
        )


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
    prefix, path = _MODULES[adapter]
    module = import_module(path)
    functions = {name: getattr(module, name.removeprefix(prefix)) for name in FUNCTIONS[adapter]}
    if adapter == "mlx":
        return functions, module.eval
    if adapter == "jax":
        return functions, lambda value: value.block_until_ready()
    if adapter == "torch" and device != "cpu":
        synchronize = getattr(module, device).synchronize
        return functions, lambda value: synchronize()
    return functions, lambda value: None
