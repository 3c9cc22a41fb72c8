"""The highest rate of the processes that count, of the loop that a dtype's operations are."""

from __future__ import annotations

import pytest

from gemmgrid.records.ceilings import Ceilings, ceilings


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
