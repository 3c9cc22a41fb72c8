"""Uses one thread, whatever was asked for, and says otherwise."""

from __future__ import annotations

from tests.liars.common import Honest


class Liar(Honest):
    def set_threads(self, threads):
        self.asked = threads
        super().set_threads(1)

    def library_threads(self):
        return self.asked
