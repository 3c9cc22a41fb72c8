"""Never returns from its first call."""

from __future__ import annotations

import time

from tests.liars.common import Honest, instead


class Liar(Honest):
    def prepare(self, cell, operands):
        return instead(super().prepare(cell, operands), "sleep(1000)", sleep=time.sleep)
