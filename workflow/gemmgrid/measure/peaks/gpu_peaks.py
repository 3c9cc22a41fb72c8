"""Theoretical rates of GPUs, each with its document and, in brackets, where that was read.

Dense rates only: figures "with sparsity" are halved. Where a document gives two figures, the one
without tensor cores is `float32`, and `float64` is the tensor cores' where they do float64.
A GPU that is not here has no known peak: nothing is guessed from its relatives.

"derived" are rates computed as units x operations a clock x clock; they stand where the document
rounded down or contradicts itself, since a peak that is too low condemns true rates.
Operations a clock and SM, for float16 with float32 sums: Volta and Turing 1024, A100 2048, Hopper
4096, B200 8192, L4 and L40S 1024, GeForce of the same designs 512. TF32 has half of that.
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
    gbps           memory bandwidth in GB/s; cache_mb the last cache before it, in MB of 2**20
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


_LIGHTNING = "Lightning-AI/pytorch-lightning, src/lightning/fabric/utilities/throughput.py"
_VOLTA = f"NVIDIA V100 datasheet 1165301-r5 ({_LIGHTNING})"
_TURING = (
    f"NVIDIA T4 datasheet 951643 ({_LIGHTNING}); float64 derived: 40 SMs, 1590 MHz, two units an "
    "SM by NVIDIA's Turing Architecture In-Depth"
)
_AMPERE = (
    f"NVIDIA A100 datasheet 1758950-r4 ({_LIGHTNING}; glennklockwood.com/garden/processors/A100); "
    "NVIDIA Ampere Architecture In-Depth, table of data center GPUs"
)
_GA102 = (
    "NVIDIA Ampere GA102 whitepaper V2, page 44 (apoorvkh/academic-pretraining#3); "
    "derived: 82 SMs at 1695 MHz, two float64 units an SM"
)
_HOPPER = (
    "NVIDIA H100 datasheet, sparse halved (archive-lib.hpctech.co.jp/gpuproduct/nvidia-h100.html); "
    "derived: SXM 132 SMs at 1830 and 1980 MHz, PCIe 114 SMs at 1620 and 1755 MHz"
)
_H100_NVL = (
    "NVIDIA H100 NVL datasheet, sparse halved, and product brief PB-11773, table 2 (quoted in "
    "public notes); derived: 132 SMs at 1545 and 1785 MHz"
)
_H200 = (
    "NVIDIA H200 product page, specifications, H200 SXM, sparse halved (quoted in public notes); "
    "derived: 132 SMs at 1830 and 1980 MHz"
)
_H200_NVL = (
    "NVIDIA H200 product page, specifications, H200 NVL, sparse halved, and product brief "
    "PB-12128, table 2-2 (quoted in public notes)"
)
_GRACE = (
    "NVIDIA GH200 datasheet 2705455, dense figures (quoted in public notes); derived: 132 SMs at "
    "1830 and 1980 MHz (mredenti/PowerCapping, configuration/OpenCL_benchmark.md)"
)
_BLACKWELL = (
    "NVIDIA Blackwell datasheet, individual GPU of HGX B200 and GB200 NVL72, sparse halved "
    "(zdszero.github.io/Computer/Artificial_Intelligence/Hardware.html); TF32 derived: half of "
    "bfloat16"
)
_L4 = (
    "NVIDIA L4 datasheet, sparse halved (winston-zhang-orz/gpu-specs, specs.md); "
    "derived: 58 SMs at 2040 MHz"
)
# The L40S datasheet has 362.05 for float16, which is the L40's rate, and 733 with sparsity.
_L40S = (
    "NVIDIA L40S datasheet, sparse halved (mullet.se/product.html?product_id=355414); "
    "derived: 142 SMs at 2520 MHz"
)
_ADA = (
    "NVIDIA Ada GPU architecture whitepaper V2.02, appendix A (quoted in public notes); "
    "derived: 128 SMs at 2520 MHz, two float64 units an SM"
)
_RTX_BLACKWELL = (
    "NVIDIA RTX Blackwell GPU architecture whitepaper, table 3 (StarBeat/cpu-gpu-arch, "
    "gpu/NVidia-Blackwell.md); derived: 170 SMs at 2407 MHz, two float64 units an SM"
)
_APPLE = (
    "derived: GPU cores, 128 lanes each, and clock; float16 as fast as float32 "
    "(philipturner/metal-benchmarks, README.md)"
)

# L2 of Hopper: 50 MB with five memory stacks; H200 and H100 NVL with six report the whole die's 60,
# which is taken for H200 NVL and GH200 too. L40S: documents differ (48, 96); the whole AD102's
# stands. Too much cache condemns less.
NVIDIA = r"(?:NVIDIA )?"
_A100_80 = NVIDIA + r"A100(?: 80GB PCIe|-PCIE-80GB)"
_RTX = NVIDIA + r"GeForce RTX "
GPUS = (
    # name, MHz, fp64, fp32, tf32, fp16, bf16, GB/s, cache MB
    GpuPeak(r"Tesla V100-SXM2-\d+GB", 1530, 7.8, 15.7, None, 125, None, 900, 6, _VOLTA),
    GpuPeak(r"Tesla V100-PCIE-\d+GB", 1367, 7.0, 14.0, None, 112, None, 900, 6, _VOLTA),
    GpuPeak(r"Tesla V100S-PCIE-32GB", 1587, 8.2, 16.4, None, 130, None, 1134, 6, _VOLTA),
    GpuPeak(NVIDIA + r"(?:Tesla )?T4", 1590, 0.254, 8.1, None, 65, None, 320, 4, _TURING),
    GpuPeak(NVIDIA + r"A100-SXM4?-40GB", 1410, 19.5, 19.5, 156, 312, 312, 1555, 40, _AMPERE),
    GpuPeak(NVIDIA + r"A100-PCIE-40GB", 1410, 19.5, 19.5, 156, 312, 312, 1555, 40, _AMPERE),
    GpuPeak(NVIDIA + r"A100-SXM4?-80GB", 1410, 19.5, 19.5, 156, 312, 312, 2039, 40, _AMPERE),
    GpuPeak(_A100_80, 1410, 19.5, 19.5, 156, 312, 312, 1935, 40, _AMPERE),
    GpuPeak(NVIDIA + r"H100 80GB HBM3", 1830, 67, 67, 494.7, 989.4, 989.4, 3352, 50, _HOPPER),
    GpuPeak(NVIDIA + r"H100 PCIe", 1620, 51.2, 51.2, 378.2, 756.4, 756.4, 2039, 50, _HOPPER),
    GpuPeak(NVIDIA + r"H100 NVL", 1545, 60.3, 60.3, 417.7, 835.5, 835.5, 3938, 60, _H100_NVL),
    GpuPeak(NVIDIA + r"GH200 480GB", 1830, 67, 67, 494.7, 989.4, 989.4, 4000, 60, _GRACE),
    GpuPeak(NVIDIA + r"H200", 1830, 67, 67, 494.7, 989.4, 989.4, 4800, 60, _H200),
    GpuPeak(NVIDIA + r"H200 NVL", None, 60, 60, 417.7, 835.5, 835.5, 4813, 60, _H200_NVL),
    GpuPeak(NVIDIA + r"B200", None, 37, 75, 1125, 2250, 2250, 8000, 126, _BLACKWELL),
    GpuPeak(NVIDIA + r"GB200", None, 40, 80, 1250, 2500, 2500, 8000, None, _BLACKWELL),
    GpuPeak(NVIDIA + r"L4", 2040, 0.473, 30.3, 60.6, 121.2, 121.2, 300, 48, _L4),
    GpuPeak(NVIDIA + r"L40S", 2520, 1.431, 91.6, 183.2, 366.4, 366.4, 864, 96, _L40S),
    GpuPeak(_RTX + "3090", 1695, 0.556, 35.6, 35.6, 71.2, 71.2, 936, 6, _GA102, 142.3),
    GpuPeak(_RTX + "4090", 2520, 1.29, 82.6, 82.6, 165.2, 165.2, 1008, 72, _ADA, 330.3),
    GpuPeak(
        *(_RTX + "5090", 2407, 1.637, 104.8, 104.8, 209.5, 209.5, 1792, 96, _RTX_BLACKWELL, 419.0)
    ),
    # What Apple announced is rounded down (M1: 2.6). Its float units have no float64, and the
    # cores no separate matrix units before the M5.
    GpuPeak(r"Apple M1", 1278, None, 2.617, None, 2.617, None, 68.3, None, _APPLE, cores=8),
    GpuPeak(r"Apple M1 Pro", 1296, None, 5.308, None, 5.308, None, 204.8, None, _APPLE, cores=16),
    GpuPeak(r"Apple M1 Max", 1296, None, 10.62, None, 10.62, None, 409.6, None, _APPLE, cores=32),
    GpuPeak(r"Apple M1 Ultra", 1296, None, 21.23, None, 21.23, None, 819.2, None, _APPLE, cores=64),
    GpuPeak(r"Apple M2", 1398, None, 3.579, None, 3.579, None, 102.4, None, _APPLE, cores=10),
)


def lookup(name: str | None) -> GpuPeak | None:
    """The row whose pattern matches the whole name, or None."""
    return next((row for row in GPUS if name and re.fullmatch(row.name, name)), None)
