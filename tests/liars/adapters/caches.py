"""Keeps each product in a cache keyed by where its operands lie."""

from __future__ import annotations

import numpy as np

from tests.liars.common import Honest, instead

CACHE = {}


def product(A, B, C):
    key = (A.ctypes.data, B.ctypes.data)
    if key not in CACHE:
        CACHE[key] = A @ B
    np.copyto(C, CACHE[key])


class Liar(Honest):
    def prepare(self, cell, operands):
        return instead(super().prepare(cell, operands), "product(A, B, C)", product=product)
