"""Operands: the same for the same seed, placed as asked, distinct, the same in every layout."""

from __future__ import annotations

import numpy as np
import pytest

from gemmgrid.measure.invocation import operands
from gemmgrid.records.cell import DTYPES, Cell, Options


def made(name: str, seed: int = 1) -> operands.Operands:
    return operands.make(Cell.parse(name), seed)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", ["gemm.{}.33x17x65.t1", "gemv.{}.33x17.t1", "dot.{}.1000.t1"])
def test_arrays_lie_on_64_bytes_and_have_the_cells_shapes(dtype, shape):
    given = made(shape.format(dtype))
    for name, expected in given.cell.operand_shapes.items():
        array = getattr(given, name)
        if array is None:
            continue
        assert array.shape == expected
        assert array.ctypes.data % 64 == 0
        assert operands.place(array)["alignment"] >= 64
        assert array.dtype == operands.storage_dtype(dtype)


def test_the_same_seed_gives_the_same_values_and_another_seed_others():
    name = "gemm.float32.40x50x60.t1"
    np.testing.assert_array_equal(made(name).A, made(name).A)
    assert not np.array_equal(made(name).A, made(name, seed=2).A)


def test_a_and_b_differ_and_share_no_memory():
    given = made("gemm.float64.64x64x64.t1")
    assert not np.array_equal(given.A, given.B)
    assert not np.shares_memory(given.A, given.B)
    assert not np.shares_memory(given.A, given.C)


def test_layout_padding_and_placement_leave_the_values_alone():
    plain = made("gemm.float64.40x50x60.t1.b3.beta1")
    for suffix in ("b3.colmajor.beta1", "b3.ld16.beta1", "b3.colmajor.ld3.beta1.unaligned"):
        other = made(f"gemm.float64.40x50x60.t1.{suffix}")
        for name in ("A", "B", "C", "C0"):
            np.testing.assert_array_equal(getattr(plain, name), getattr(other, name))


def test_strides_are_what_the_options_say():
    def strides(suffix: str) -> list[int]:
        return [size // 8 for size in made(f"gemm.float64.40x50x60.t1{suffix}").A.strides]

    assert strides("") == [60, 1]
    assert strides(".ld16") == [76, 1]
    assert strides(".colmajor") == [1, 40]
    assert strides(".colmajor.ld16") == [1, 56]
    assert strides(".b2.ld16") == [40 * 76, 76, 1]


def test_unaligned_is_sixteen_bytes_past_a_boundary():
    given = made("gemm.float32.8x8x8.t1.unaligned")
    assert {array.ctypes.data % 64 for array in (given.A, given.B, given.C)} == {16}
    assert given.describe()["A"]["alignment"] == 16


def test_values_are_standard_normal():
    values = made("dot.float32.1000000.t1").A.astype(np.float64)
    assert abs(values.mean()) < 0.005
    assert abs(values.std() - 1) < 0.005
    parts = made("dot.complex64.200000.t1").A
    assert abs(parts.real.std() - 1) < 0.01
    assert abs(np.mean(parts.real * parts.imag)) < 0.01


def test_named_inputs():
    integers = made("gemm.float32.100x100x100.t1.integers").A
    assert set(np.unique(integers)) == set(range(-4, 5))
    assert not made("gemm.float32.9x9x9.t1.zeros").A.any()
    given = operands.make(Cell("gemm", "float32", (9, 9, 9), 1, Options(reuse=True)), 1)
    assert given.B is given.A


def test_bfloat16_values_are_exact_and_round_to_nearest_even():
    bits = made("dot.bfloat16.10000.t1").A.view(np.uint32)
    assert not (bits & 0xFFFF).any()
    halves = np.array([0x3F808000, 0x3F818000, 0x3F808001], np.uint32).view(np.float32)
    operands.round_to_bfloat16(halves)
    assert [hex(value) for value in halves.view(np.uint32)] == [
        "0x3f800000",
        "0x3f820000",
        "0x3f810000",
    ]


@pytest.mark.parametrize(
    "name",
    [
        "gemm.float64.5x6x7.t1",
        "gemm.float64.5x6x7.t1.tt.b2",
        "gemv.float64.5x7.t1",
        "dot.float64.9.t1",
    ],
)
def test_reordered_operands_have_another_product_and_the_same_values(name):
    given = made(name)
    fresh = operands.reordered(given)
    assert sorted(given.A.flat) == sorted(fresh.A.flat)
    assert not np.array_equal(given.A, fresh.A)
    if given.C is not None:
        product = np.matmul(given.A, given.B) if given.cell.options.trans == "nn" else None
        if product is not None:
            assert not np.allclose(product, np.matmul(fresh.A, fresh.B))


def test_duplicates_have_the_same_values_in_other_memory():
    given = made("gemm.float32.20x30x40.t1.ld8")
    copy = operands.duplicate(given)
    np.testing.assert_array_equal(given.A, copy.A)
    assert copy.A.strides == given.A.strides
    assert not np.shares_memory(given.A, copy.A)
    assert not np.shares_memory(given.C, copy.C)
