"""Carrying out a checked expression: the few things that the language of `explain` can do."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any


class Evaluation:
    """Carries out a tree that `expressions` has checked."""

    def __init__(
        self, operands: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]
    ) -> None:
        self.operands = operands
        self.functions = functions

    def value(self, node: ast.expr) -> Any:
        match node:
            case ast.Name(id=name):
                return self.operands[name]
            case ast.BinOp(left=left, right=right):
                return self.value(left) @ self.value(right)
            case ast.Attribute(value=value, attr="T"):
                return self.value(value).T
            case ast.Attribute(value=value):
                return _swapped(self.value(value))
            case ast.Subscript(value=value, slice=index):
                return self.value(value)[_index(index)]
            case ast.Call(func=ast.Attribute(value=value, attr="conj"), args=[]):
                return self.value(value).conj()
            case ast.Call(func=function, args=arguments, keywords=keywords):
                given = [self.argument(argument) for argument in arguments]
                named = {str(k.arg): self.argument(k.value) for k in keywords}
                return self.functions[dotted_name(function)](*given, **named)
        raise AssertionError(ast.dump(node))  # the check has let through what is not known here

    def argument(self, node: ast.expr) -> Any:
        value = literal_value(node)
        return self.value(node) if value is None else value


def _swapped(value: Any) -> Any:
    """The last two axes exchanged; MLX and old NumPy have no .mT."""
    turned = getattr(value, "mT", None)
    return value.swapaxes(-1, -2) if turned is None else turned


def dotted_name(node: ast.expr) -> str:
    """np.dot → "np.dot"; "" for anything but a name or a module's attribute."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return ""


def whole_number(node: ast.expr) -> int | None:
    value = literal_value(node)
    return value if type(value) is int else None


def literal_value(node: ast.expr) -> Any:
    """A number, a bool, a string, or None where the node is no literal of these."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = literal_value(node.operand)
        return -value if type(value) in (int, float) else None
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float | bool | str):
        return node.value
    return None


def _index(node: ast.expr) -> Any:
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    values = tuple(
        slice(
            *(None if b is None else whole_number(b) for b in (part.lower, part.upper, part.step))
        )
        if isinstance(part, ast.Slice)
        else whole_number(part)
        for part in parts
    )
    return values if isinstance(node, ast.Tuple) else values[0]
