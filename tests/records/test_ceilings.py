"""The highest rate of the processes that count, of the loop that a dtype's operations are."""

from __future__ import annotations

import pytest

from gemmgrid.records.ceilings import Ceilings, ceilings, impossible, moved_bytes
from gemmgrid.records.cell import Cell, Options


def process(single: float, double: float, memory: float | None = None, **more: object) -> dict:
    half = {
        "trips": [],
        "float32": {"all": [single, single / 2], "slowest": [single / 2, single / 4]},
        "float64": {"all": [double], "slowest": [double / 2]},
    }
    moved = memory and {"bytes": 1, "triad": [memory], "read": [1.2 * memory]}
    return {"probe": {"before": half, "after": None, "memory": moved}, **more}


@pytest.mark.parametrize(
    ("dtype", "flops"),
    [("float32", 6e11), ("complex64", 6e11), ("float64", 3e11), ("complex128", 3e11)],
)
def test_the_fastest_process_that_counts(dtype, flops):
    run = {
        "cell": {"dtype": dtype},
        "invocations": [
            process(5e11, 3e11, 4e10),
            process(6e11, 2e11),
            process(9e11, 9e11, 9e10, aside="far"),
            {},
        ],
    }
    assert ceilings(run) == Ceilings(flops, 4.8e10)


def test_what_was_not_measured_is_no_ceiling():
    run = {"cell": {"dtype": "float32"}, "invocations": [{"probe": {"before": None}}]}
    assert ceilings(run) == Ceilings(None, None)
    half = {"cell": {"dtype": "bfloat16"}, "invocations": [process(5e11, 3e11, 4e10)]}
    assert ceilings(half) == Ceilings(None, 4.8e10)


def test_the_roofline():
    roof = Ceilings(1e12, 1e11)
    assert roof.seconds(2e9, 1e6) == pytest.approx(2e-3)
    assert roof.seconds(2e6, 1e9) == pytest.approx(1e-2)
    assert Ceilings(None, 1e11).seconds(2e9, 0) == 0
    assert Ceilings(None, None).seconds(1, 1) is None


def probed(cell: Cell, precision: str | None = None, isa: tuple[str, ...] = ()) -> dict:
    one = process(1e11, 5e10, 1e10, effective_precision=precision or cell.dtype)
    return {"cell": cell.to_json(), "host": {"isa": list(isa)}, "invocations": [one] * 5}


PRODUCT = Cell("gemm", "float32", (500, 500, 1000), 2)  # 5e8 operations: 5 ms at the ceiling
COMPLEX = Cell("gemm", "complex64", (500, 250, 500), 2)  # the same
VECTOR = Cell("gemv", "float32", (4000, 4000), 2)  # 64 MB: 5.3 ms at the ceiling of 12 GB/s


@pytest.mark.parametrize(
    ("cell", "seconds", "refused"),
    [
        (PRODUCT, 5.0e-3, False),
        (PRODUCT, 4.1e-3, False),
        (PRODUCT, 3.9e-3, True),
        (COMPLEX, 3.1e-3, False),
        (COMPLEX, 2.9e-3, True),
        (VECTOR, 2.8e-3, False),
        (VECTOR, 2.5e-3, True),
    ],
)
def test_what_is_far_above_a_measured_ceiling_is_impossible(cell, seconds, refused):
    told = impossible(probed(cell), seconds, caches=None if cell.routine == "gemm" else 1)
    assert (told is not None) == refused
    assert told is None or "on the same CPUs reached" in told


@pytest.mark.parametrize(
    ("precision", "isa"),
    [("bfloat16", ()), ("float32", ("avx512f", "amx_bf16")), ("float32", ("asimd", "sve"))],
)
def test_what_the_loops_do_not_use_may_be_faster(precision, isa):
    assert impossible(probed(PRODUCT, precision, isa), 1e-3, None) is None


def test_what_the_caches_hold_comes_from_no_memory():
    assert impossible(probed(VECTOR), 1e-3, caches=1 << 30) is None
    assert moved_bytes(VECTOR, 60_000_000) == VECTOR.operand_bytes - 60_000_000
    cold = Cell("gemv", "float32", (64, 64), 1, Options(cold=True))
    assert moved_bytes(cold, 1 << 30) == cold.operand_bytes
    assert moved_bytes(VECTOR, None) == 0
