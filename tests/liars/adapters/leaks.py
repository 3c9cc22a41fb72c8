"""Keeps 256 MiB for each call."""

from __future__ import annotations

from tests.liars.common import Honest, instead


class Liar(Honest):
    def prepare(self, cell, operands):
        kept = []
        call = super().prepare(cell, operands)
        return instead(call, f"{call.statement}; keep(b'x' * (1 << 28))", keep=kept.append)
