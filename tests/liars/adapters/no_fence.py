"""Hands the work to a thread and returns at once; nothing waits for it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from tests.liars.common import Honest, instead


class Liar(Honest):
    def prepare(self, cell, operands):
        call = super().prepare(cell, operands)
        pool = ThreadPoolExecutor(1)
        return instead(call, "submit(matmul, A, B, out=C)", submit=pool.submit, matmul=np.matmul)
