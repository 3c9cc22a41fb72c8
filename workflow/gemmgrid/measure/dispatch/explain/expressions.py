"""The little language of `explain`: one product, written as Python would write it.

Names      A, B matrices; x, y vectors; P, Q stacks of matrices
Operators  @
Views      .T  .mT  .conj()  and slices with numbers: A[::-1], A[:, ::2], x[2:10]
Functions  those of the library, listed in FUNCTIONS, with operands and literal options

The text is parsed and checked against this list, then carried out by `Expression.evaluate`, which
knows these few things only. It is never given to Python to run. Anything else is refused with its
position.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gemmgrid.measure.dispatch.explain.evaluation import (
    Evaluation,
    dotted_name,
    literal_value,
    whole_number,
)

OPERANDS = ("A", "B", "x", "y", "P", "Q")
DIMENSIONS = {"A": 2, "B": 2, "x": 1, "y": 1, "P": 3, "Q": 3}
VIEWS = ("T", "mT")
METHODS = ("conj",)
LONGEST = 200
DEEPEST = 12

_BLAS_OPTIONS = ("alpha", "beta", "a", "b", "x", "y", "c", "trans", "trans_a", "trans_b")
_BLAS_NAMES = (
    *("sgemm", "dgemm", "cgemm", "zgemm", "sgemv", "dgemv", "cgemv", "zgemv"),
    *("sdot", "ddot", "cdotu", "zdotu", "cdotc", "zdotc", "ssyrk", "dsyrk", "csyrk", "zsyrk"),
)
FUNCTIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "numpy": {
        "np.dot": (),
        "np.matmul": (),
        "np.inner": (),
        "np.outer": (),
        "np.vdot": (),
        "np.einsum": ("optimize",),
        "np.tensordot": ("axes",),
    },
    "scipy": dict.fromkeys(_BLAS_NAMES, _BLAS_OPTIONS),
    "cblas": {},
    "torch": {
        "torch.matmul": (),
        "torch.mm": (),
        "torch.mv": (),
        "torch.dot": (),
        "torch.bmm": (),
        "torch.addmm": ("alpha", "beta"),
    },
    "mlx": {"mx.matmul": ()},
    "jax": {"jnp.matmul": (), "jnp.dot": ()},
}
"""For each adapter: the functions it may call, and the options that each takes as literals."""


class ExpressionError(ValueError):
    """Not a sentence of the language; the text shows where and says what is allowed."""


@dataclass(frozen=True)
class Expression:
    """A checked expression of one adapter's language."""

    text: str
    adapter: str
    names: tuple[str, ...]
    """The operands that occur in it, in the order of OPERANDS."""
    _tree: ast.expr

    def as_cell(self) -> tuple[str, str] | None:
        """(routine, trans) where it is one plain product of A, B, x, y and their transposes."""
        if not (isinstance(self._tree, ast.BinOp) and isinstance(self._tree.op, ast.MatMult)):
            return None
        sides = [_operand_and_letter(side) for side in (self._tree.left, self._tree.right)]
        if None in sides:
            return None
        (left, first), (right, second) = (side for side in sides if side is not None)
        routine = {("A", "B"): "gemm", ("A", "x"): "gemv", ("x", "y"): "dot"}.get((left, right))
        if routine is None or (routine == "gemv" and second != "n"):
            return None
        return (routine, "nn" if routine == "dot" else first + second)

    def evaluate(
        self, operands: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]
    ) -> Any:
        """Its value. `functions` maps the names in FUNCTIONS to the library's functions."""
        return Evaluation(operands, functions).value(self._tree)


def parse(text: str, adapter: str) -> Expression:
    """The expression in `text`; ExpressionError says what is wrong with it and where.

    >>> parse("A @ B.T", "numpy").names
    ('A', 'B')
    """
    if adapter not in FUNCTIONS:
        raise ExpressionError(f"adapter {adapter!r} is none of {', '.join(sorted(FUNCTIONS))}")
    text = text.strip()
    if len(text) > LONGEST:
        raise ExpressionError(f"an expression has at most {LONGEST} characters, not {len(text)}")
    if not text.isascii() or not text.isprintable():
        raise ExpressionError(f"an expression is one line of ASCII characters, not {text!r}")
    functions = FUNCTIONS[adapter]
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        offset = (getattr(error, "offset", None) or 1) - 1
        raise ExpressionError(_pointed(text, offset, "this is no expression", functions)) from None
    check = _Check(text, functions)
    check.product(tree.body, 0)
    names = tuple(name for name in OPERANDS if name in check.names)
    if not names or not check.multiplies:
        raise ExpressionError(_pointed(text, 0, "nothing is multiplied here", functions))
    return Expression(text, adapter, names, tree.body)


class _Check:
    """Walks the tree; whatever it does not know is refused."""

    def __init__(self, text: str, functions: Mapping[str, tuple[str, ...]]) -> None:
        self.text = text
        self.functions = functions
        self.names: set[str] = set()
        self.multiplies = False

    def product(self, node: ast.expr, depth: int) -> None:
        if depth > DEEPEST:
            self.refuse(node, f"more than {DEEPEST} levels deep")
        match node:
            case ast.Name(id=name) if name in OPERANDS:
                self.names.add(name)
            case ast.BinOp(left=left, op=ast.MatMult(), right=right):
                self.multiplies = True
                self.product(left, depth + 1)
                self.product(right, depth + 1)
            case ast.Attribute(value=value, attr=view) if view in VIEWS:
                self.product(value, depth + 1)
            case ast.Call(func=ast.Attribute(value=value, attr=method), args=[], keywords=[]) if (
                method in METHODS
            ):
                self.product(value, depth + 1)
            case ast.Subscript(value=value, slice=index):
                self.product(value, depth + 1)
                self.index(index)
            case ast.Call():
                self.call(node, depth)
            case ast.Name(id=name):
                self.refuse(node, f"the name {name!r}")
            case ast.BinOp():
                self.refuse(node, "this operator")
            case ast.Attribute(attr=attribute):
                self.refuse(node, f"the attribute .{attribute}")
            case _:
                self.refuse(node, "this")

    def call(self, node: ast.Call, depth: int) -> None:
        name = dotted_name(node.func)
        if name not in self.functions:
            self.refuse(node, f"the function {name or ast.unparse(node.func)!r}")
        self.multiplies = True
        for argument in node.args:
            if isinstance(argument, ast.Constant):
                self.literal(argument, text=name == "np.einsum" and argument is node.args[0])
            else:
                self.product(argument, depth + 1)
        for keyword in node.keywords:
            allowed = self.functions[name]
            if keyword.arg not in allowed:
                options = ", ".join(allowed) or "none"
                self.refuse(keyword.value, f"the option {keyword.arg!r} of {name} ({options})")
            if keyword.arg in ("a", "b", "c", "x", "y"):
                self.product(keyword.value, depth + 1)
            else:
                self.literal(keyword.value)

    def index(self, node: ast.expr) -> None:
        parts = node.elts if isinstance(node, ast.Tuple) else [node]
        for part in parts:
            if isinstance(part, ast.Slice):
                for bound in (part.lower, part.upper, part.step):
                    if bound is not None and whole_number(bound) is None:
                        self.refuse(bound, "this; a slice takes whole numbers")
                if part.step is not None and whole_number(part.step) == 0:
                    self.refuse(part.step, "a step of 0")
            elif whole_number(part) is None:
                self.refuse(part, "this; an index is a whole number or a slice")

    def literal(self, node: ast.expr, text: bool = False) -> None:
        value = literal_value(node)
        if value is None or isinstance(value, str) != text:
            self.refuse(node, "this; here a literal is needed")

    def refuse(self, node: ast.expr, what: str) -> None:
        raise ExpressionError(
            _pointed(self.text, node.col_offset, f"{what} is not in the language", self.functions)
        )


def _operand_and_letter(node: ast.expr) -> tuple[str, str] | None:
    """An operand as it is (n), transposed (t), or conjugated and transposed (c)."""
    match node:
        case ast.Name(id=name):
            return name, "n"
        case ast.Attribute(value=ast.Name(id=name)):
            return name, "t"
        case ast.Attribute(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)), args=[])):
            return name, "c"
        case ast.Call(func=ast.Attribute(value=ast.Attribute(value=ast.Name(id=name))), args=[]):
            return name, "c"
    return None


def _pointed(text: str, offset: int, what: str, functions: Mapping[str, Any]) -> str:
    """The text with a mark under the place, what is wrong there, and what is allowed."""
    return "\n".join(
        [
            what,
            f"  {text}",
            f"  {' ' * offset}^",
            f"allowed: the operands {', '.join(OPERANDS)}; the operator @; .T, .mT and .conj(); "
            "slices with numbers, such as A[::-1] or A[:, ::2]",
            f"functions with this backend: {', '.join(functions) or 'none'}",
        ]
    )
