"""What runs under MLX and JAX on the CPU."""

from __future__ import annotations

import platform

import pytest

from tests.measure.dispatch.rows import Answer, row, watch

MLX = """
import mlx.core as mx
def wait(value):
    mx.eval(value)
with mx.stream(mx.cpu):
    mx.set_default_device(mx.cpu)
A, B, v = mx.random.normal((192, 192)), mx.random.normal((192, 192)), mx.random.normal((192,))
w = mx.random.normal((40000,))
AH, BH = A.astype(mx.float16), B.astype(mx.float16)
AB, BB = A.astype(mx.bfloat16), B.astype(mx.bfloat16)
AC = A.astype(mx.complex64)
mx.eval(A, B, v, w, AH, BH, AB, BB, AC)
"""
MLX_ROWS = [
    row("A @ B"),
    row("A @ v", "gemv"),
    row("mx.inner(w, w)", "dot"),
    row("AC @ AC", dtype="complex64"),
    row("AH @ BH", dtype="float16"),
    row("AB @ BB", dtype="bfloat16"),
]
JAX = """
import jax
import jax.numpy as jnp
def wait(value):
    value.block_until_ready()
A, B = jax.random.normal(jax.random.key(1), (2, 512, 512))
AB, BB = A.astype(jnp.bfloat16), B.astype(jnp.bfloat16)
AC, BC = A.astype(jnp.complex64), B.astype(jnp.complex64)
I = A.astype(jnp.int32)
"""
JAX_ROWS = [
    row("A @ B"),
    row("AB @ BB", dtype="bfloat16"),
    row("jnp.matmul(AB, BB, preferred_element_type=jnp.float32)", dtype="bfloat16"),
    row("AC @ BC", dtype="complex64"),
    row("I @ I"),
]
linux_only = pytest.mark.skipif(platform.system() != "Linux", reason="of the Linux wheel")


@pytest.fixture(scope="module")
def mlx() -> Answer:
    return watch("mlx-cpu", "mlx", MLX, MLX_ROWS)


@pytest.fixture(scope="module")
def jax() -> Answer:
    return watch("jax-cpu", "jax", JAX, JAX_ROWS)


@linux_only
def test_mlx_calls_the_reference_blas_that_its_wheel_brings(mlx: Answer) -> None:
    seen = mlx["A @ B"]
    assert seen.is_traced("sgemm")["order"] == "row"
    assert "libmlx" in seen.routine["caller"]
    assert "libblas" in seen.routine["library"]
    assert seen.kernel["evidence"] == "sampled"
    assert seen.kernel["name"] == "sgemm_"
    mlx["AC @ AC"].is_traced("cgemm")


@linux_only
def test_mlx_calls_gemm_even_for_a_vector(mlx: Answer) -> None:
    assert mlx["A @ v"].is_traced("sgemm")["n"] == 1
    mlx["mx.inner(w, w)"].is_traced("sgemm")


@linux_only
@pytest.mark.parametrize("code", ["AH @ BH", "AB @ BB"])
def test_mlx_computes_small_floats_by_itself(mlx: Answer, code: str) -> None:
    assert mlx[code].is_no_blas() == "mlx::core::simd_gemm"


def test_jax_calls_no_blas_and_its_program_says_what_it_does(jax: Answer) -> None:
    seen = jax["A @ B"]
    assert seen.routine["evidence"] == "logged"
    assert seen.routine["routine"] == "dot"
    assert seen.routine["args"]["operands"] == ["f32", "f32"]
    assert seen.record["no_blas"]["slots_watched"] > 0
    assert seen.kernel["evidence"] == "sampled"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="YNNPACK's names there are not known")
def test_jax_multiplies_with_ynnpack(jax: Answer) -> None:
    assert jax["A @ B"].routine["symbol"] == "__ynn_fusion"
    assert jax["A @ B"].kernel["name"].startswith("ynn::dot_fp32")


def test_jax_converts_bfloat16_first_and_not_when_float32_is_asked_for(jax: Answer) -> None:
    upcast = jax["AB @ BB"].hidden["upcast"]
    assert (upcast["count"], upcast["bytes"]) == (2, 2 * 512 * 512 * 4)
    assert "bf16 to f32" in upcast["explanation"]
    direct = jax["jnp.matmul(AB, BB, preferred_element_type=jnp.float32)"]
    assert direct.routine["args"]["operands"] == ["bf16", "bf16"]
    assert "upcast" not in direct.hidden


@pytest.mark.parametrize("code", ["AC @ BC", "I @ I"])
def test_jax_multiplies_other_dtypes_with_eigen(jax: Answer, code: str) -> None:
    assert jax[code].routine["symbol"] == "dot"
    assert "Eigen" in jax[code].kernel["name"]
