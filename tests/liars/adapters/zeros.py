"""Returns zeros."""

from __future__ import annotations

from tests.liars.common import Honest, instead


class Liar(Honest):
    def prepare(self, cell, operands):
        return instead(super().prepare(cell, operands), "C.fill(0)")
