"""Prints to standard output, from Python and from beneath it."""

from __future__ import annotations

import os

from tests.liars.common import Honest


class Liar(Honest):
    def prepare(self, cell, operands):
        print("library banner ±")
        os.write(1, b"and a line past Python's own buffers\n")
        return super().prepare(cell, operands)
