"""Clocks, power and throttling of the GPU while a process runs, through NVML."""

from __future__ import annotations

import time
from typing import Any

from gemmgrid.measure.host import gpu

INTERVAL_S = 0.2
MOST_SAMPLES = 600
"""Kept of one process: two minutes; a longer one is watched on without being kept."""


class GpuWatch:
    """Samples the GPU at 5 Hz at most, where the device is one that NVML sees.

    Not yet run on NVIDIA hardware.
    """

    def __init__(self, device: str, index: int) -> None:
        self.index = index
        self.nvml = gpu.connect()[0] if device in ("cuda", "gpu") else None
        self.samples: list[dict[str, Any]] = []
        self.throttled = False
        self.next = 0.0

    def begin(self) -> None:
        """A new process: forget what the last one saw."""
        self.samples, self.throttled, self.next = [], False, 0.0

    def look(self) -> None:
        """Take a sample if it is time for one."""
        if self.nvml is None or time.monotonic() < self.next:
            return
        self.next = time.monotonic() + INTERVAL_S
        sample = gpu.sample(self.nvml, self.index)
        self.throttled = self.throttled or gpu.throttled([sample])
        if len(self.samples) < MOST_SAMPLES:
            self.samples.append(sample)

    def flags(self) -> list[str]:
        return ["throttled"] if self.throttled else []
