from __future__ import annotations

import pytest

from gemmgrid.plan.grid.selection import parse_selector
from gemmgrid.records.cell import Cell, Options

PLACE = {
    "machine": "amd-epyc-2c",
    "platform": "linux-x86_64",
    "backend": "torch-cpu",
    "adapter": "torch",
    "device": "cpu",
}
GEMM = Cell("gemm", "float32", (128, 256, 512), 2, Options(trans="nt", batch=4, cold=True))
GEMV = Cell("gemv", "float64", (128, 256), 1)
DOT = Cell("dot", "float64", (1000,), 1)


def chosen(conditions, cells=(GEMM, GEMV, DOT), place=PLACE):
    selector = parse_selector(conditions, ["torch-cpu", "torch-cuda", "numpy-mkl"])
    return [cell for cell in cells if selector.matches(place, cell)]


@pytest.mark.parametrize(
    ("conditions", "cells"),
    [
        ({"routine": "gemm"}, [GEMM]),
        ({"routine": ["gemm", "dot"]}, [GEMM, DOT]),
        ({"routine": "gem*"}, [GEMM, GEMV]),
        ({"dtype": "float64", "n": ">=1000"}, [DOT]),
        ({"n": 256}, [GEMM, GEMV]),
        ({"n": ">=128 <1000"}, [GEMM, GEMV]),
        ({"n": ">=128, <200"}, []),
        ({"n": ["<200", ">=1000"]}, [DOT]),
        ({"n": "!=256"}, [DOT]),
        ({"m": 128}, [GEMM, GEMV]),
        ({"k": ">0"}, [GEMM]),
        ({"threads": 1}, [GEMV, DOT]),
        ({"trans": "nt"}, [GEMM]),
        ({"batch": ">1"}, [GEMM]),
        ({"batch": 1}, [GEMV, DOT]),
        ({"cold": True}, [GEMM]),
        ({"cold": False, "reuse": False}, [GEMV, DOT]),
        ({"backend": "torch-*"}, [GEMM, GEMV, DOT]),
        ({"backend": "numpy-mkl"}, []),
        ({"backend": "!=numpy-mkl"}, [GEMM, GEMV, DOT]),
        ({"platform": "linux-*", "device": "cpu", "adapter": "torch"}, [GEMM, GEMV, DOT]),
        ({"machine": "apple-*"}, []),
        ("routine=gemm dtype=float32", [GEMM]),
        ("routine=gemv,dot n>=1000", [DOT]),
        ("n>=128 n<1000", [GEMM, GEMV]),
        ("cold=true", [GEMM]),
        ("backend=torch-cpu  threads=2", [GEMM]),
    ],
)
def test_conditions_choose_cells(conditions, cells):
    assert chosen(conditions) == cells


@pytest.mark.parametrize(
    ("conditions", "words"),
    [
        ({"dtypes": "float32"}, ["no axis 'dtypes'", "Did you mean 'dtype'?"]),
        ({"dtype": "float33"}, ["'float33'", "float16", "Did you mean 'float32'?"]),
        ({"backend": "torch-cup"}, ["'torch-cup'", "Did you mean 'torch-cpu'?"]),
        ({"backend": "tensorflow-*"}, ["'tensorflow-*'", "torch-cpu"]),
        ({"routine": ["gemm", "gemx"]}, ["'gemx'"]),
        ({"n": "large"}, ["n is 'large'", ">=1024"]),
        ({"n": ">=10 large"}, ["n is '>=10 large'"]),
        ({"n": True}, ["n is True"]),
        ({"cold": "perhaps"}, ["cold is 'perhaps'", "true, false"]),
        ({"dtype": ">float32"}, ["only numbers can be compared"]),
        ("float32", ["'float32' is not a condition", "axis=value"]),
        ("dtype=", ["'dtype=' is not a condition"]),
        ("n=4 n>=2", ["'n' stands twice"]),
    ],
)
def test_a_wrong_condition_says_what_is_allowed(conditions, words):
    with pytest.raises(ValueError) as caught:
        parse_selector(conditions, ["torch-cpu", "torch-cuda", "numpy-mkl"])
    for word in words:
        assert word in str(caught.value)
