"""Floating-point operations per cycle of CPU cores.

Sources of the table: Intel 64 and IA-32 Architectures Optimization Reference Manual; AMD Software
Optimization Guides for families 17h, 19h and 1Ah; Arm Software Optimization Guides of the Neoverse
cores; Fujitsu A64FX Microarchitecture Manual. A fused multiply-add counts as two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TRUSTED_DRIVERS = frozenset(
    {
        "intel_pstate",
        "intel_cpufreq",
        "amd-pstate",
        "amd-pstate-epp",
        "amd_pstate",
        "amd_pstate_epp",
    }
)
"""cpufreq drivers whose maximum includes turbo; that of acpi-cpufreq may be the nominal clock."""

NARROW_INTEL = {0xAF: "Sierra Forest", 0xB6: "Grand Ridge", 0xBE: "Alder Lake-N"}
"""Models with efficient cores only (Gracemont, Crestmont): 256-bit operations take two turns of
128-bit units (Intel's manual, chapter on the Gracemont microarchitecture)."""
UNLISTED_INTEL = frozenset({0xDD})
"""Clearwater Forest: efficient cores whose units the manual does not describe yet."""

AMX_PER_CYCLE = 1024
"""bfloat16 operations (16 x 16 x 32 x 2 in 16 cycles) of one core's AMX, Sapphire Rapids and on."""

_ARM_FLOAT32 = {
    "Cortex-A53": 8,
    "Cortex-A55": 8,
    "Cortex-A57": 8,
    "Cortex-A72": 8,
    "Cortex-A76": 16,
    "Neoverse N1": 16,
    "Neoverse N2": 16,
    "Neoverse V1": 32,
    "Neoverse V2": 32,
    "A64FX": 64,
}

CEILING_MHZ = {"x86": 6500.0, "arm": 5000.0}
"""No core of the kind is clocked higher (6.2 GHz and 4.5 GHz are the highest sold)."""

APPLE_CORE_LIMIT = 2e12
"""float32 per performance core: a whole cluster's matrix unit stays at about this rate
(corsix/amx-benchmarks and arXiv 2409.18779 measured 1.5 to 2.0 TFLOP/s a cluster)."""


def float32_per_cycle(cpu: Mapping[str, Any]) -> tuple[float | None, str]:
    """float32 operations of one core in one cycle, and why; None where it is not known."""
    vendor, family, model = cpu.get("vendor"), cpu.get("family"), cpu.get("model_number")
    isa = set(cpu.get("isa") or ())
    if cpu.get("efficiency_cores"):
        return None, "its cores are of two kinds, with different rates"
    if vendor == "GenuineIntel" and family == 6:
        return _intel(str(cpu.get("model")), model, isa)
    if vendor == "AuthenticAMD" and model is not None:
        return _amd(family, model)
    known = _ARM_FLOAT32.get(str(cpu.get("model")))
    if known is not None:
        return float(known), f"{cpu.get('model')}: {known // 8} x 128 bits of multiply-add"
    return None, f"the vector units of {cpu.get('model') or 'this CPU'} are not in the table"


def _intel(name: str, model: int | None, isa: set[str]) -> tuple[float | None, str]:
    if model in NARROW_INTEL:
        return 16.0, f"{NARROW_INTEL[model]}: two 128-bit multiply-add units"
    if "avx512f" not in isa and model not in UNLISTED_INTEL:
        if "fma" in isa and "avx2" in isa:
            return 32.0, "two 256-bit multiply-add units"
        return None, "no multiply-add is offered: its rate depends on the mix of operations"
    if model in (0x55,):  # Skylake-SP, Cascade Lake, Cooper Lake
        if any(word in name for word in ("Platinum", "Gold 6", "W-3", "W-2", "i9-")):
            return 64.0, "two 512-bit multiply-add units"
        return None, "products of this generation have one or two 512-bit units"
    if model in (0x6A, 0x6C, 0x8F, 0xCF, 0xAD, 0xAE):  # Ice Lake-SP to Granite Rapids
        return 64.0, "two 512-bit multiply-add units"
    if model in (0x7D, 0x7E, 0x8C, 0x8D, 0xA7):  # Ice Lake, Tiger Lake, Rocket Lake clients
        return 32.0, "one 512-bit multiply-add unit, made of two of 256 bits"
    return None, "the vector units of this model are not in the table"


def _amd(family: int | None, model: int) -> tuple[float | None, str]:
    if family == 0x17:
        if model < 0x30:
            return 16.0, "Zen, Zen+: two 128-bit multiply-add units"
        return 32.0, "Zen 2: two 256-bit multiply-add units"
    if family == 0x19:
        return 32.0, "Zen 3, Zen 4: two 256-bit multiply-add units (512 bits take two cycles)"
    if family == 0x1A and (model < 0x20 or 0x40 <= model < 0x50):
        return 64.0, "Zen 5: two 512-bit multiply-add units"
    return None, "the vector units of this model are not in the table"


def rates_per_cycle(cpu: Mapping[str, Any]) -> dict[str, tuple[float | None, str]]:
    """Operations per core and cycle by precision, each with its reason."""
    single, why = float32_per_cycle(cpu)
    isa = set(cpu.get("isa") or ())
    through = f"computed in float32: {why}"
    rates = {
        "float64": (single / 2 if single else None, why),
        "float32": (single, why),
        "float16": (single, through),
        "bfloat16": (single, through),
    }
    if "avx512_fp16" in isa or isa & {"asimdhp"}:
        rates["float16"] = (2 * single if single else None, f"twice as many in a vector: {why}")
    if "amx_fp16" in isa:
        rates["float16"] = (float(AMX_PER_CYCLE), "AMX")
    if "amx_bf16" in isa:
        rates["bfloat16"] = (float(AMX_PER_CYCLE), "AMX")
    elif isa & {"avx512_bf16", "bf16", "svebf16"}:
        rates["bfloat16"] = (None, "the rate of its bfloat16 instructions is not in the table")
    return rates


def limits(cpu: Mapping[str, Any], architecture: str) -> dict[str, float]:
    """FLOP/s of one core by precision that no core of this kind exceeds: generous on purpose."""
    isa = set(cpu.get("isa") or ())
    if cpu.get("vendor") == "Apple":
        single, half = APPLE_CORE_LIMIT, 4 * APPLE_CORE_LIMIT
    else:
        kind = "arm" if architecture in ("aarch64", "arm64") else "x86"
        hertz = CEILING_MHZ[kind] * 1e6
        # Two 512-bit units; a scalable matrix unit makes an outer product of vectors instead.
        single = (1024 if isa & {"sme", "sme2"} else 64) * hertz
        half = (2 * AMX_PER_CYCLE if isa & {"amx_bf16", "amx_fp16"} else 256) * hertz
        half = max(half, 4 * single)
    return {"float64": single / 2, "float32": single, "float16": half, "bfloat16": half}
