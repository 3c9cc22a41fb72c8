"""Warns at each product, though the result is right; the first words differ in a number only."""

from __future__ import annotations

import os
import warnings

from tests.liars.common import Honest, instead


def warn():
    warnings.warn("overflow encountered in matmul", RuntimeWarning, stacklevel=1)


class Liar(Honest):
    def prepare(self, cell, operands):
        os.write(2, b"process %d: no huge pages\n" % os.getpid())
        return instead(super().prepare(cell, operands), "np.matmul(A, B, out=C); warn()", warn=warn)
