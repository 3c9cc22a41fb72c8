"""Reads address zero in its first call."""

from __future__ import annotations

import ctypes

from tests.liars.common import Honest, instead


class Liar(Honest):
    def prepare(self, cell, operands):
        return instead(super().prepare(cell, operands), "read(0)", read=ctypes.string_at)
