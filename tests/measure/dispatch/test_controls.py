"""What must change the evidence does, and what must not does not: the evidence follows the code."""

from __future__ import annotations

import platform

import pytest

from tests.measure.dispatch.rows import Seen, row, watch

NUMPY = """
import numpy as np
generator = np.random.default_rng(SEED)
A, B = generator.standard_normal((2, 200, 200)).astype(np.float32)
"""
TORCH = """
import torch
torch.set_num_threads(1)
A, B = torch.randn(2, 256, 256)
AB, BB = A.bfloat16(), B.bfloat16()
"""
x86_only = pytest.mark.skipif(platform.machine() != "x86_64", reason="an x86-64 control")


def numpy(seed: int = 1, **more: str) -> tuple[Seen, list[str]]:
    answer = watch(
        "numpy-openblas", "numpy", NUMPY.replace("SEED", str(seed)), [row("A @ B")], **more
    )
    return answer["A @ B"], answer.cores


@x86_only
def test_another_openblas_core_is_another_kernel() -> None:
    plain, cores = numpy()
    chosen = "Haswell" if cores != ["Haswell"] else "Nehalem"
    forced, forced_cores = numpy(OPENBLAS_CORETYPE=chosen)
    assert forced_cores == [chosen]
    assert forced.kernel["name"] == f"sgemm_kernel_{chosen.upper()}"
    assert forced.kernel["name"] != plain.kernel["name"]
    assert forced.routine["symbol"] == plain.routine["symbol"]


def test_another_seed_is_the_same_evidence() -> None:
    one, two = (numpy(seed)[0].record for seed in (1, 2))
    for record in (one, two):
        record.pop("cost_s")
    assert one == two


@x86_only
def test_other_instructions_are_another_mkl_kernel() -> None:
    """On AMD's processors MKL ignores MKL_ENABLE_INSTRUCTIONS; MKL_CBWR works on both makers'."""
    plain = torch("A @ B")
    for name, value in (("MKL_ENABLE_INSTRUCTIONS", "AVX2"), ("MKL_CBWR", "AVX2")):
        changed = torch("A @ B", **{name: value})
        if changed.kernel["name"] != plain.kernel["name"]:
            print(f"control: {name}={value}: {plain.kernel['name']} → {changed.kernel['name']}")
            break
    else:
        pytest.fail(f"no control changed {plain.kernel}")
    assert changed.kernel["evidence"] == plain.kernel["evidence"] == "sampled"
    assert changed.routine["symbol"] == plain.routine["symbol"] == "sgemm_"


@x86_only
def test_other_instructions_are_another_onednn_implementation() -> None:
    """AVX512_CORE takes away bfloat16 instructions; where there are none, AVX2 takes AVX-512."""
    plain = torch("AB @ BB", "bfloat16")
    for value in ("AVX512_CORE", "AVX2"):
        changed = torch("AB @ BB", "bfloat16", ONEDNN_MAX_CPU_ISA=value)
        if changed.kernel["name"] != plain.kernel["name"]:
            print(f"control: {value}: {plain.kernel['name']} → {changed.kernel['name']}")
            return
    if plain.kernel["evidence"] != "logged":
        pytest.skip(
            "hardware: this processor has no bfloat16 path in oneDNN that could be taken away"
        )
    pytest.fail(f"no control changed {plain.kernel}")


def torch(code: str, dtype: str = "float32", **more: str) -> Seen:
    return watch("torch-cpu", "torch", TORCH, [row(code, dtype=dtype)], **more)[code]
