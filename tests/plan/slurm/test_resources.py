"""Memory, minutes and sizes of allocations, by values worked out by hand."""

from __future__ import annotations

import pytest

from gemmgrid.plan.config.errors import ConfigError
from gemmgrid.plan.slurm.resources import cells_per_allocation, memory_mb, minutes
from gemmgrid.records.cell import Cell

SETTINGS = {
    "rounds": 1,
    "invocations": 5,
    "budget_s": 60.0,
    "evidence": True,
    "memory_fraction": 0.8,
}


@pytest.mark.parametrize(
    ("name", "needed"),
    [
        # 400 for Snakemake and the supervisor, and
        # (three sets + 40 for each thread + 1000 for the library) / 0.8.
        ("gemm.float32.1000x1000x1000.t8", 400 + 1695),  # sets of 12 MB: 1356 / 0.8
        ("gemm.float64.20000x20000x20000.t64", 400 + 40450),  # of 9600 MB: 32360 / 0.8
        ("dot.complex128.1000000.t1", 400 + 1421),  # of 32 MB and 16 bytes: 1136.00005 / 0.8
        ("gemv.float32.1000x2000.t1", 400 + 1331),  # of 8.012 MB: 1064.036 / 0.8
        ("gemm.float32.1000x1000x1000.t8.b10", 400 + 2100),  # ten products: 1680 / 0.8
        ("gemm.float32.1000x1000x1000.t8.reuse", 400 + 1680),  # two arrays: 1344 / 0.8
        ("gemm.float32.1000x1000x1000.t8.cold", 400 + 3038),  # and a gibibyte: 2430 / 0.8
    ],
)
def test_memory_of_a_cell(entry, name, needed):
    machine = entry("ice: {}")["ice"]
    assert memory_mb(Cell.parse(name), SETTINGS, machine) == needed


def test_a_smaller_share_of_memory_needs_more_of_it(entry):
    cell = Cell.parse("gemm.float32.1000x1000x1000.t8")
    half = {**SETTINGS, "memory_fraction": 0.5}
    assert memory_mb(cell, half, entry("ice: {}")["ice"]) == 400 + 2712


def test_the_entry_has_the_last_word_on_memory(entry):
    cell = Cell.parse("gemm.float64.20000x20000x20000.t64")
    assert memory_mb(cell, SETTINGS, entry("ice: {memory_mb: 500}")["ice"]) == 500


@pytest.mark.parametrize(
    ("settings", "most"),
    [
        # 60 s, five processes with 7 s each beside it, 10 s around them, 30 s of evidence: 135 s
        ({}, 3),
        ({"evidence": False}, 2),  # 105 s
        ({"rounds": 5}, 2),  # a process a round: 12 + 7 + 10 + 30 = 59 s; two minutes at least
        ({"rounds": 2}, 2),  # three processes in the longer round: 36 + 21 + 10 + 30 = 97 s
        ({"budget_s": 600.0}, 12),  # 675 s
        ({"budget_s": 104.0, "evidence": False, "invocations": 1}, 3),  # 121 s
        ({"budget_s": 103.0, "evidence": False, "invocations": 1}, 2),  # 120 s
    ],
)
def test_minutes_of_a_round_of_a_cell(settings, most):
    assert minutes({**SETTINGS, **settings}) == most


@pytest.mark.parametrize(
    ("text", "wanted", "count"),
    [
        ("ice: {}", None, 50),
        ("ice: {cells_per_allocation: 8}", None, 8),
        ("ice: {cells_per_allocation: 8}", 200, 200),
        ("ice: {runtime_min: 60}", None, 20),  # of three minutes each
        ("ice: {runtime_min: 62}", 1000, 20),
        ("ice: {runtime_min: 60}", 7, 7),
        ("ice: {runtime_min: 3}", None, 1),
        ("ice: {runtime_min: 5, cells_per_allocation: 4}", None, 1),
    ],
)
def test_cells_of_an_allocation(entry, text, wanted, count):
    assert cells_per_allocation(entry(text)["ice"], SETTINGS, wanted) == count


def test_a_limit_too_short_for_one_cell_is_explained(entry):
    with pytest.raises(ConfigError) as caught:
        cells_per_allocation(entry("ice: {runtime_min: 2}")["ice"], SETTINGS)
    assert str(caught.value) == (
        "config/machines.yaml, ice.runtime_min: found 2. One cell may take 3 minutes "
        "(budget.cell_s and what is beside it). Raise runtime_min, or lower "
        "budget.cell_s in the study."
    )
