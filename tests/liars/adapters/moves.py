"""Pins its process to one core when it is loaded."""

from __future__ import annotations

import os

from tests.liars.common import Honest


class Liar(Honest):
    def __init__(self, device, options):
        super().__init__(device, options)
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
