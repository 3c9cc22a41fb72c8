"""Computes in float16 what was asked for in float32."""

from __future__ import annotations

from tests.liars.common import Honest, instead


class Liar(Honest):
    def prepare(self, cell, operands):
        narrow = "C[...] = A.astype('f2') @ B.astype('f2')"
        return instead(super().prepare(cell, operands), narrow)
