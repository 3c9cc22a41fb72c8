"""Leaves the result of its first call in place and computes nothing more."""

from __future__ import annotations

import numpy as np

from tests.liars.common import Honest, instead


class Liar(Honest):
    def prepare(self, cell, operands):
        called = []

        def once(A, B, C):
            if not called:
                np.matmul(A, B, out=C)
                called.append(True)

        return instead(super().prepare(cell, operands), "once(A, B, C)", once=once)
