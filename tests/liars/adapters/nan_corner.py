"""Leaves NaN in the last element, and only there."""

from __future__ import annotations

from tests.liars.common import Honest, instead


class Liar(Honest):
    def prepare(self, cell, operands):
        call = super().prepare(cell, operands)
        return instead(call, f"{call.statement}; C[-1, -1] = float('nan')")
