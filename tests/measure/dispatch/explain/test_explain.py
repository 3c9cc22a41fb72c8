"""`explain` in the terminal, in real environments."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tests.measure.interpreters import interpreter, run, variables

COMMAND = ("-m", "gemmgrid.measure.dispatch", "explain")


def explain(environment: str, adapter: str, expression: str, *more: str) -> str:
    asked = ("--backend", environment, "--adapter", adapter, "--expr", expression)
    return run(environment, *COMMAND, *asked, "--shape", "96", *more)


def record(environment: str, adapter: str, expression: str, *more: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(explain(environment, adapter, expression, "--json", *more))
    return answer["evidence"]


def refused(environment: str, adapter: str, *more: str) -> str:
    asked = ("--backend", environment, "--adapter", adapter, "--shape", "96")
    done = subprocess.run(
        [str(interpreter(environment)), "-s", *COMMAND, *asked, *more],
        env=variables(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done.stderr


def test_the_answer_in_plain_words() -> None:
    text = explain("numpy-openblas", "numpy", "A @ B.T")
    assert text.startswith("A @ B.T\nnumpy-openblas, float32, m × n × k = 96 × 96 × 96, 1 thread\n")
    assert "sgemm (scipy_cblas_sgemm64_), 1 call [traced]" in text
    assert "transb=t" in text
    assert "kernel       sgemm_" in text
    assert "library      OpenBLAS" in text
    assert "hidden       nothing was seen" in text
    assert "how we know  traced: the calls were intercepted" in text


def test_hidden_work_and_no_blas_in_plain_words() -> None:
    text = explain("scipy-openblas", "scipy", "sgemm(1.0, A, B)")
    assert "2 operands were copied before sgemm" in text
    assert "(73,728 bytes)" in text
    half = explain("numpy-openblas", "numpy", "A @ B", "--dtype", "float16")
    assert "no BLAS:" in half
    assert "HALF_matmul" in half
    assert "watched addresses" in half


def test_expressions_of_every_library() -> None:
    assert record("torch-cpu", "torch", "P @ B")["routines"][0]["symbol"] == "sgemm_"
    assert record("mlx-cpu", "mlx", "A @ B.T")["routines"][0]["args"]["transb"] == "t"
    assert record("jax-cpu", "jax", "A @ B.T")["routines"][0]["routine"] == "dot"
    cblas = record("cblas-openblas", "cblas", "A @ x", "--options", '{"library": "openblas"}')
    assert cblas["routines"][0]["routine"] == "sgemv"


def test_what_cannot_be_asked_is_refused_with_a_reason() -> None:
    text = refused("numpy-openblas", "numpy", "--expr", "A @ exec('x')")
    assert "the function 'exec' is not in the language" in text
    assert "NumPy has no bfloat16" in refused(
        "numpy-openblas", "numpy", "--expr", "A @ B", "--dtype", "bfloat16"
    )
    assert "fails:" in refused("numpy-openblas", "numpy", "--expr", "A @ B[:5]")
    assert "plain products only" in refused(
        "cblas-openblas", "cblas", "--expr", "A @ A", "--options", '{"library": "openblas"}'
    )
    assert "cannot be used here" in refused("numpy-openblas", "torch", "--expr", "A @ B")


@pytest.mark.parametrize("shape", ["0", "-3", "4x5", "a", "1x2x3x4"])
def test_odd_shapes_are_refused(shape: str) -> None:
    assert "--shape" in refused("numpy-openblas", "numpy", "--expr", "A @ B", "--shape", shape)


@pytest.mark.parametrize(
    ("environment", "adapter", "expression"),
    [
        ("numpy-openblas", "numpy", "A @ B"),
        ("numpy-openblas", "numpy", "P @ x"),
        ("cblas-openblas", "cblas", "A @ B"),
    ],
)
def test_what_does_not_fit_into_memory_is_refused(
    environment: str, adapter: str, expression: str
) -> None:
    options = '{"library": "openblas"}' if adapter == "cblas" else "{}"
    asked = ("--expr", expression, "--shape", "1000000", "--options", options)
    said = refused(environment, adapter, *asked)
    assert "GB of memory" in said
    assert "--shape" in said


def test_a_library_that_finds_no_memory_is_told_in_words() -> None:
    """np.outer of two vectors that fit makes a matrix that does not."""
    text = refused("numpy-openblas", "numpy", "--expr", "np.outer(x, y)", "--shape", "1x1x3000000")
    assert "fails: Unable to allocate" in text
