"""What XLA compiled a product into, from its optimised program: JAX on any device.

XLA writes every module that it compiles into a folder if XLA_FLAGS asks for it. The program names
the instruction that multiplies (`dot`, a fusion of kind `__ynn_fusion`, a call of `__cublas$gemm`),
and every conversion of type before it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

_PATTERN = "*after_optimizations.txt"
_INSTRUCTION = re.compile(
    r"%?(?P<name>[\w.\-]+) = \(?(?P<type>\w+)\[(?P<shape>[\d,]*)\]\S*(?:, [^()]*\))? "
    r"(?P<operation>[\w\-]+)\("
)
_COMPUTATION = re.compile(r"^(?:ENTRY )?%?(?P<name>[\w.\-]+) \(.*\{$")
_TARGET = re.compile(r'custom_call_target="([^"]+)"')
_KIND = re.compile(r'"kind":"([^"]+)"')
_CALLS = re.compile(r"calls=%?([\w.\-]+)")
_OPERANDS = re.compile(r"%([\w.\-]+)")
_PRODUCT_TARGET = re.compile(r"gemm|matmul|dot|cublas|onednn|eigen|triton", re.IGNORECASE)
_BYTES = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8, "c64": 8, "c128": 16}


def dump_flags(folder: str, present: str | None) -> str:
    """XLA_FLAGS that make XLA write its programs to `folder`, added to those already set."""
    return f"{present or ''} --xla_dump_to={folder} --xla_dump_hlo_as_text".strip()


@dataclass
class Instruction:
    """One line of a program."""

    name: str
    type: str
    shape: tuple[int, ...]
    operation: str
    text: str
    computation: str


@dataclass
class Product:
    """The instruction that multiplies, and how XLA carries it out."""

    operation: str
    """dot, or the target of a call."""
    carried_by: str | None
    """The fusion or library it was given to, None where XLA's own emitter makes the code."""
    type: str
    shape: tuple[int, ...]
    operands: tuple[str, ...] = ()


@dataclass
class Program:
    """What a module says about its products."""

    products: list[Product] = field(default_factory=list)
    conversions: list[dict[str, Any]] = field(default_factory=list)
    """{"from", "to", "bytes"} of every conversion of an argument to a wider type."""


def read_programs(folder: Path) -> Program | None:
    """The newest module in `folder` that multiplies."""
    files = sorted(folder.glob(_PATTERN), key=lambda file: (file.stat().st_mtime_ns, file.name))
    for file in reversed(files):
        program = parse_program(file.read_text(encoding="utf-8", errors="replace"))
        if program.products:
            return program
    return None


def parse_program(text: str) -> Program:
    """The products and widening conversions of one optimised module."""
    instructions = _instructions(text)
    carriers = {
        calls[1]: (kind[1] if (kind := _KIND.search(one.text)) else one.name)
        for one in instructions
        if one.operation == "fusion" and (calls := _CALLS.search(one.text))
    }
    types = {one.name: one for one in instructions}
    program = Program()
    for one in instructions:
        operands = _operand_types(one, types)
        target = _TARGET.search(one.text)
        called = target is not None and _PRODUCT_TARGET.search(target[1]) is not None
        if one.operation == "dot" or (one.operation == "custom-call" and called):
            carrier = target[1] if target and called else carriers.get(one.computation)
            product = Product(one.operation, carrier, one.type, one.shape, tuple(operands))
            program.products.append(product)
        elif one.operation == "convert" and _widens(operands, one.type):
            size = prod(one.shape) * _BYTES[one.type]
            program.conversions.append({"from": operands[0], "to": one.type, "bytes": size})
    return program


def _widens(operands: list[str], result: str) -> bool:
    return bool(operands) and _BYTES.get(result, 0) > _BYTES.get(operands[0], 0) > 0


def _operand_types(one: Instruction, types: Mapping[str, Instruction]) -> list[str]:
    inside = one.text.split(f"{one.operation}(", 1)[1].split(")", 1)[0]
    return [types[name].type for name in _OPERANDS.findall(inside) if name in types]


def _instructions(text: str) -> list[Instruction]:
    found, computation = [], ""
    for raw in text.splitlines():
        line = raw.strip().removeprefix("ROOT ")
        if header := _COMPUTATION.match(raw):
            computation = header["name"]
        elif match := _INSTRUCTION.match(line):
            shape = tuple(int(size) for size in match["shape"].split(",") if size)
            found.append(
                Instruction(
                    match["name"], match["type"], shape, match["operation"], line, computation
                )
            )
    return found
