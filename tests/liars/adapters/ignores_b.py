"""Multiplies A by itself and ignores the second operand."""

from __future__ import annotations

from tests.liars.common import Honest, instead


class Liar(Honest):
    def prepare(self, cell, operands):
        call = super().prepare(cell, operands)
        return instead(call, call.statement.replace("A, B", "A, A"))
