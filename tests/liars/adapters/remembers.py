"""Computes when the operands are prepared; each call only copies the remembered result."""

from __future__ import annotations

import numpy as np

from tests.liars.common import Honest, instead


class Liar(Honest):
    def prepare(self, cell, operands):
        call = super().prepare(cell, operands)
        return instead(
            call, "copyto(C, remembered)", copyto=np.copyto, remembered=operands.A @ operands.B
        )
