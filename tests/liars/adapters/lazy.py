"""Builds a graph; only the last product is ever computed, as with a lazy library misused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.liars.common import Honest, instead


class Liar(Honest):
    def prepare(self, cell, operands):
        call = super().prepare(cell, operands)
        A, B, C = operands.A, operands.B, operands.C
        pending = []

        def force():
            if pending:
                np.matmul(A, B, out=C)
                pending.clear()

        lazy = instead(call, "enqueue(1)", enqueue=pending.append, force=force)
        return replace(lazy, fence="force()")
