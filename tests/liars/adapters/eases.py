"""Makes its inputs easier in place, and multiplies those: right for what it changed."""

from __future__ import annotations

from tests.liars.common import Honest, instead


class Liar(Honest):
    def prepare(self, cell, operands):
        return instead(super().prepare(cell, operands), "A[...] = 1.0\nnp.matmul(A, B, out=C)")
