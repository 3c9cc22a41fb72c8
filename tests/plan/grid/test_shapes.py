from __future__ import annotations

import pytest

from gemmgrid.plan.grid.shapes import parse_shape


@pytest.mark.parametrize(
    ("routine", "written", "shape"),
    [
        ("gemm", 512, (512, 512, 512)),
        ("gemm", "512", (512, 512, 512)),
        ("gemm", "4×5×6", (4, 5, 6)),
        ("gemm", "4x5x6", (4, 5, 6)),
        ("gemm", " 4 X 5 * 6 ", (4, 5, 6)),
        ("gemm", [4, 5, 6], (4, 5, 6)),
        ("gemv", 7, (7, 7)),
        ("gemv", "7x9", (7, 9)),
        ("dot", 1000, (1000,)),
        ("dot", [1000], (1000,)),
    ],
)
def test_every_way_to_write_a_shape(routine, written, shape):
    assert parse_shape(routine, written) == shape


@pytest.mark.parametrize(
    ("routine", "written", "words"),
    [
        ("gemm", "4x5", ["gemm takes 3 dimensions", "has 2", "m×n×k"]),
        ("gemv", [1, 2, 3], ["gemv takes 2 dimensions", "has 3", "m×n"]),
        ("dot", "4x5", ["dot takes 1 dimension,", "Allowed: n."]),
        ("gemm", "4by5", ["'4by5' is not a shape", "512x512x64"]),
        ("gemm", "4x", ["not a shape"]),
        ("gemm", "0", ["at least 1"]),
        ("gemm", "-4", ["not a shape"]),
        ("dot", 10**13, ["at most"]),
    ],
)
def test_what_cannot_be_a_shape_says_what_can(routine, written, words):
    with pytest.raises(ValueError) as caught:
        parse_shape(routine, written)
    for word in words:
        assert word in str(caught.value)
