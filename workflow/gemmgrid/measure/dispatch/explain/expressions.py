"""The little language of `explain`: one product, written as Python would write it.

Names      A, B matrices; x, y vectors; P, Q stacks of matrices
Operators  @
Views      .T  .mT  .conj()  and slices with numbers: A[::-1], A[:, ::2], x[2:10]
Functions  those of the library, listed in FUNCTIONS, with operands and literal options

The text is parsed, and read part by part into functions that do these few things only. It is never
given to Python to run. Anything else is refused with its position.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

OPERANDS = ("A", "B", "x", "y", "P", "Q")
LONGEST = 200
DEEPEST = 12
Value = Callable[[Mapping[str, Any]], Any]
"""Part of an expression, ready to be carried out once its names are known."""

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
    _value: Value

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
        return self._value({**operands, **functions})


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
    reader = _Reader(text, functions)
    value = reader.product(tree.body)
    names = tuple(name for name in OPERANDS if name in reader.names)
    if not names or not reader.multiplies:
        raise ExpressionError(_pointed(text, 0, "nothing is multiplied here", functions))
    return Expression(text, adapter, names, tree.body, value)


class _Reader:
    """Reads a tree into a function of what its names mean; whatever it does not know is refused."""

    def __init__(self, text: str, functions: Mapping[str, tuple[str, ...]]) -> None:
        self.text = text
        self.functions = functions
        self.names: set[str] = set()
        self.multiplies = False

    def product(self, node: ast.expr, depth: int = 0) -> Value:
        if depth > DEEPEST:
            self.refuse(node, f"more than {DEEPEST} levels deep")
        match node:
            case ast.Name(id=name) if name in OPERANDS:
                self.names.add(name)
                return lambda known: known[name]
            case ast.BinOp(left=left, op=ast.MatMult(), right=right):
                self.multiplies = True
                first, second = self.product(left, depth + 1), self.product(right, depth + 1)
                return lambda known: first(known) @ second(known)
            case ast.Attribute(value=value, attr="T"):
                inner = self.product(value, depth + 1)
                return lambda known: inner(known).T
            case ast.Attribute(value=value, attr="mT"):
                inner = self.product(value, depth + 1)
                return lambda known: _swapped(inner(known))
            case ast.Call(func=ast.Attribute(value=value, attr="conj"), args=[], keywords=[]):
                inner = self.product(value, depth + 1)
                return lambda known: inner(known).conj()
            case ast.Subscript(value=value, slice=index):
                inner, chosen = self.product(value, depth + 1), self.index(index)
                return lambda known: inner(known)[chosen]
            case ast.Call():
                return self.call(node, depth)
            case ast.Name(id=name):
                self.refuse(node, f"the name {name!r}")
            case ast.BinOp():
                self.refuse(node, "this operator")
            case ast.Attribute(attr=attribute):
                self.refuse(node, f"the attribute .{attribute}")
        self.refuse(node, "this")

    def call(self, node: ast.Call, depth: int) -> Value:
        name = _dotted(node.func)
        if name not in self.functions:
            self.refuse(node, f"the function {name or ast.unparse(node.func)!r}")
        self.multiplies = True
        given: list[Value] = []
        for argument in node.args:
            if _literal(argument) is not None:
                text = name == "np.einsum" and argument is node.args[0]
                given.append(self.literal(argument, text))
            else:
                given.append(self.product(argument, depth + 1))
        named: dict[str, Value] = {}
        for keyword in node.keywords:
            option, allowed = keyword.arg, self.functions[name]
            if option is None or option not in allowed:
                options = ", ".join(allowed) or "none"
                self.refuse(keyword.value, f"the option {option!r} of {name} ({options})")
            if option in ("a", "b", "c", "x", "y"):
                named[option] = self.product(keyword.value, depth + 1)
            else:
                named[option] = self.literal(keyword.value)
        return lambda known: known[name](
            *(value(known) for value in given),
            **{option: value(known) for option, value in named.items()},
        )

    def index(self, node: ast.expr) -> Any:
        """What stands between brackets: whole numbers and slices of them."""
        parts = [self.part(one) for one in (node.elts if isinstance(node, ast.Tuple) else [node])]
        return tuple(parts) if isinstance(node, ast.Tuple) else parts[0]

    def part(self, node: ast.expr) -> int | slice:
        if not isinstance(node, ast.Slice):
            return self.whole(node, "this; an index is a whole number or a slice")
        if node.step is not None and _literal(node.step) == 0:
            self.refuse(node.step, "a step of 0")
        bounds = (node.lower, node.upper, node.step)
        what = "this; a slice takes whole numbers"
        return slice(*(None if bound is None else self.whole(bound, what) for bound in bounds))

    def whole(self, node: ast.expr, what: str) -> int:
        value = _literal(node)
        if type(value) is not int:
            self.refuse(node, what)
        return value

    def literal(self, node: ast.expr, text: bool = False) -> Value:
        value = _literal(node)
        if value is None or isinstance(value, str) != text:
            self.refuse(node, "this; here a literal is needed")
        return lambda known: value

    def refuse(self, node: ast.expr, what: str) -> NoReturn:
        raise ExpressionError(
            _pointed(self.text, node.col_offset, f"{what} is not in the language", self.functions)
        )


def _swapped(value: Any) -> Any:
    """The last two axes exchanged; MLX and old NumPy have no .mT."""
    turned = getattr(value, "mT", None)
    return value.swapaxes(-1, -2) if turned is None else turned


def _dotted(node: ast.expr) -> str:
    """np.dot → "np.dot"; "" for anything but a name or a module's attribute."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return ""


def _literal(node: ast.expr) -> Any:
    """A number, a bool, a string, or None where the node is no literal of these."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _literal(node.operand)
        return -value if type(value) in (int, float) else None
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float | bool | str):
        return node.value
    return None


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
