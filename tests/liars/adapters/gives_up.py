"""Ends the process as MKL does without its kernels: the reason on standard output, no exception."""

from __future__ import annotations

import os

from tests.liars.common import Honest


class Liar(Honest):
    def prepare(self, cell, operands):
        os.write(1, b"a banner\nFATAL ERROR: cannot load libkernels.so\n")
        os._exit(2)
