"""Theoretical rates of GPUs, each row from the maker's own document.

Dense rates only: figures "with sparsity" are halved. Where a document gives two figures, the one
without tensor cores is `float32`, and `float64` is the tensor cores' where they do float64.
A GPU that is not here has no known peak: nothing is guessed from its relatives.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

TERA = 1e12


@dataclass(frozen=True)
class GpuPeak:
    """Rates in TFLOP/s at `clock_mhz`; None where the hardware has no such mode.

    name           pattern that NVML's or macOS's whole name matches
    clock_mhz      lowest of the clocks that the rates were computed with; None if not published
    float16        with float32 sums, float16_sums with float16 sums where those are faster
    gbps           memory bandwidth in GB/s; cache_mb the last cache before it, in MB
    """

    name: str
    clock_mhz: int | None
    float64: float | None
    float32: float
    tf32: float | None
    float16: float | None
    bfloat16: float | None
    gbps: float
    cache_mb: float | None
    source: str
    float16_sums: float | None = None
    cores: int | None = None  # GPU cores that the rates are for, where the name leaves it open


_VOLTA = "NVIDIA Tesla V100 datasheet (2020) and Volta architecture whitepaper (WP-08608-001)"
_TURING = "NVIDIA T4 datasheet (2019) and Turing architecture whitepaper (WP-09183-001)"
_AMPERE = "NVIDIA A100 datasheet (2021) and Ampere architecture whitepaper"
_GA102 = "NVIDIA Ampere GA102 architecture whitepaper V2, appendix A"
_HOPPER = "NVIDIA H100 Tensor Core GPU architecture whitepaper and H100 datasheet, sparse halved"
_H200 = "NVIDIA H200 Tensor Core GPU datasheet, sparse halved"
_GRACE = "NVIDIA GH200 Grace Hopper Superchip datasheet, sparse halved"
_ADA = "NVIDIA Ada GPU architecture whitepaper, appendix"
_BLACKWELL = "NVIDIA Blackwell datasheet, HGX B200 and GB200 NVL72 per GPU, sparse halved"
_RTX_BLACKWELL = "NVIDIA RTX Blackwell GPU architecture whitepaper, appendix"
_APPLE = "Apple's announcement of the chip, for its full number of GPU cores"

NVIDIA = r"(?:NVIDIA )?"
GPUS = (
    # name, MHz, fp64, fp32, tf32, fp16, bf16, GB/s, cache MB
    GpuPeak(r"Tesla V100-SXM2-\d+GB", 1530, 7.8, 15.7, None, 125, None, 900, 6, _VOLTA),
    GpuPeak(r"Tesla V100-PCIE-\d+GB", 1380, 7.0, 14.0, None, 112, None, 900, 6, _VOLTA),
    GpuPeak(r"Tesla V100S-PCIE-32GB", 1597, 8.2, 16.4, None, 130, None, 1134, 6, _VOLTA),
    GpuPeak(NVIDIA + r"(?:Tesla )?T4", 1590, None, 8.1, None, 65, None, 320, 4, _TURING),
    GpuPeak(NVIDIA + r"A100-SXM4?-40GB", 1410, 19.5, 19.5, 156, 312, 312, 1555, 40, _AMPERE),
    GpuPeak(NVIDIA + r"A100-PCIE-40GB", 1410, 19.5, 19.5, 156, 312, 312, 1555, 40, _AMPERE),
    GpuPeak(NVIDIA + r"A100-SXM4?-80GB", 1410, 19.5, 19.5, 156, 312, 312, 2039, 40, _AMPERE),
    GpuPeak(NVIDIA + r"A100 80GB PCIe", 1410, 19.5, 19.5, 156, 312, 312, 1935, 40, _AMPERE),
    GpuPeak(NVIDIA + r"H100 80GB HBM3", 1830, 67, 67, 494.7, 989.4, 989.4, 3350, 50, _HOPPER),
    GpuPeak(NVIDIA + r"H100 PCIe", 1620, 51, 51, 378, 756, 756, 2000, 50, _HOPPER),
    GpuPeak(NVIDIA + r"H100 NVL", None, 60, 60, 417.5, 835.5, 835.5, 3900, 50, _HOPPER),
    GpuPeak(NVIDIA + r"GH200 480GB", 1830, 67, 67, 494.7, 989.4, 989.4, 4000, 50, _GRACE),
    GpuPeak(NVIDIA + r"H200", 1830, 67, 67, 494.7, 989.4, 989.4, 4800, 50, _H200),
    GpuPeak(NVIDIA + r"H200 NVL", None, 60, 60, 417.5, 835.5, 835.5, 4800, 50, _H200),
    GpuPeak(NVIDIA + r"B200", None, 37, 75, 1100, 2250, 2250, 7700, None, _BLACKWELL),
    GpuPeak(NVIDIA + r"GB200", None, 40, 80, 1250, 2500, 2500, 8000, None, _BLACKWELL),
    GpuPeak(NVIDIA + r"L4", 2040, 0.47, 30.3, 60, 121, 121, 300, 48, _ADA),
    GpuPeak(NVIDIA + r"L40S", 2520, 1.43, 91.6, 183, 362, 362, 864, 96, _ADA),
    GpuPeak(NVIDIA + r"GeForce RTX 3090", 1695, 0.556, 35.6, 35.6, 71, 71, 936, 6, _GA102, 142),
    GpuPeak(
        NVIDIA + r"GeForce RTX 4090", 2520, 1.29, 82.6, 82.6, 165.2, 165.2, 1008, 72, _ADA, 330.3
    ),
    GpuPeak(
        *(NVIDIA + r"GeForce RTX 5090", 2407, 1.64, 104.8, 104.8, 209.5, 209.5, 1792, 96),
        *(_RTX_BLACKWELL, 419.0),
    ),
    # Apple gives one rate, of float32. Its float units have no float64, and the cores no separate
    # matrix units before the M5.
    GpuPeak(r"Apple M1", None, None, 2.6, None, 2.6, None, 68.25, None, _APPLE, cores=8),
    GpuPeak(r"Apple M1 Pro", None, None, 5.2, None, 5.2, None, 200, None, _APPLE, cores=16),
    GpuPeak(r"Apple M1 Max", None, None, 10.4, None, 10.4, None, 400, None, _APPLE, cores=32),
    GpuPeak(r"Apple M1 Ultra", None, None, 21, None, 21, None, 800, None, _APPLE, cores=64),
    GpuPeak(r"Apple M2", None, None, 3.6, None, 3.6, None, 100, None, _APPLE, cores=10),
)


def lookup(name: str | None) -> GpuPeak | None:
    """The row whose pattern matches the whole name, or None."""
    return next((row for row in GPUS if name and re.fullmatch(row.name, name)), None)
