"""Hands out its result once, and never again: the check after the timing hangs."""

from __future__ import annotations

import time
from dataclasses import replace

from tests.liars.common import Honest


class Liar(Honest):
    def prepare(self, cell, operands):
        call, asked = super().prepare(cell, operands), []

        def result(names):
            asked.append(names)
            if len(asked) > 1:
                time.sleep(1000)
            return call.result(names)

        return replace(call, result=result)
