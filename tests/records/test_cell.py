"""Names of cells: readable, complete, reversible; and what a cell costs."""

from __future__ import annotations

import itertools
import random

import pytest

from gemmgrid.records.cell import CALLS, MODES, Cell, Options, cell_problem


def test_the_name_of_the_design_page():
    cell = Cell("gemm", "float32", (1024, 512, 768), 8)
    assert cell.name == "gemm.float32.1024x512x768.t8"


def test_options_follow_in_a_fixed_order():
    options = Options(
        trans="nt",
        batch=64,
        layout="F",
        pad=8,
        alpha=-1,
        beta=0.5,
        inputs="zeros",
        unaligned=True,
        alloc=False,
        cold=True,
        call="out",
        mode="eager",
    )
    name = Cell("gemm", "float64", (2, 3, 4), 1, options).name
    expected = "nt.b64.colmajor.ld8.alpha-1.beta0.5.zeros.unaligned.cold.out.eager"
    assert name == f"gemm.float64.2x3x4.t1.{expected}"


def random_cells(count: int) -> list[Cell]:
    chance = random.Random(7)
    cells: list[Cell] = []
    while len(cells) < count:
        routine = chance.choice(["gemm", "gemv", "dot"])
        dimensions = {"gemm": 3, "gemv": 2, "dot": 1}[routine]
        options = Options(
            trans=chance.choice(["nn", "nt", "tn", "cc"]),
            batch=chance.choice([1, 1, 7]),
            layout=chance.choice("CF"),
            pad=chance.choice([0, 64]),
            alpha=chance.choice([1.0, 2.5, -1.0, 1e-3, 1e22]),
            beta=chance.choice([0.0, 1.0, -0.5]),
            inputs=chance.choice(["normal", "zeros", "integers"]),
            unaligned=chance.random() < 0.3,
            alloc=chance.random() < 0.3,
            cold=chance.random() < 0.3,
            call=chance.choice(CALLS),
            mode=chance.choice(MODES),
        )
        shape = tuple(chance.choice([1, 2, 17, 4096]) for _ in range(dimensions))
        try:
            cells.append(Cell(routine, "complex64", shape, chance.choice([1, 64]), options))
        except ValueError:
            continue
    return cells


def test_name_and_json_read_back_as_the_same_cell():
    for cell in random_cells(500):
        assert Cell.parse(cell.name) == cell
        assert Cell.from_json(cell.to_json()) == cell


def test_different_cells_have_different_names():
    cells = set(random_cells(500))
    assert len({cell.name for cell in cells}) == len(cells)


@pytest.mark.parametrize(
    "name",
    [
        "gemm.float32.512.t1",
        "gemm.float32.512x512x512",
        "gemm.float32.512x512x512.t0",
        "gemm.float32.512x512x512.t01",
        "gemm.float32.512x512x512.t1.cold.nt",
        "gemm.float31.512x512x512.t1",
        "gemm.float32.512x512x512.t1.alpha1",
        "../gemm.float32.512x512x512.t1",
        "gemm.float32.512x512x512.t1\n",
        "",
    ],
)
def test_what_is_no_name_is_refused(name):
    with pytest.raises(ValueError):
        Cell.parse(name)


@pytest.mark.parametrize(
    ("cell", "flops", "bytes_"),
    [
        (("gemm", "float32", (100, 200, 300)), 12_000_000, 4 * (30_000 + 60_000 + 20_000)),
        (("gemm", "complex128", (10, 20, 30)), 8 * 6000, 16 * (300 + 600 + 200)),
        (("gemv", "float64", (100, 200)), 40_000, 8 * (20_000 + 200 + 100)),
        (("dot", "float16", (1000,)), 2000, 2 * (2000 + 1)),
    ],
)
def test_flops_and_bytes(cell, flops, bytes_):
    described = Cell(*cell, threads=1)
    assert described.flops == flops
    assert described.operand_bytes == bytes_


def test_batch_padding_and_reuse_count_in_bytes():
    square = Cell("gemm", "float32", (8, 8, 8), 1, Options(batch=3, pad=2))
    assert square.flops == 3 * 2 * 8**3
    assert square.operand_bytes == 3 * 3 * 8 * 10 * 4
    assert Cell("gemm", "float32", (8, 8, 8), 1, Options(reuse=True)).operand_bytes == 2 * 256


def test_stored_shapes_are_transposed_where_the_option_says_so():
    cell = Cell("gemm", "float32", (2, 3, 4), 1, Options(trans="tc"))
    assert cell.operand_shapes == {"A": (4, 2), "B": (3, 4), "C": (2, 3)}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("gemm", "float32", (4, 4), 1), "3 dimensions"),
        (("gemm", "float32", (4, 4, 0), 1), "at least 1"),
        (("gemm", "float32", (4, 4, 4.0), 1), "whole number"),
        (("gemm", "float32", (4, 4, 4), 0), "threads"),
        (("axpy", "float32", (4,), 1), "routine"),
        (("dot", "float32", (4,), 1, Options(batch=2)), "batch"),
        (("dot", "float32", (4,), 1, Options(trans="tn")), "transpose"),
        (("gemv", "float32", (4, 4), 1, Options(trans="nt")), "only A"),
        (("gemm", "float32", (4, 5, 6), 1, Options(reuse=True)), "same stored shape"),
        (("gemm", "float32", (4, 4, 4), 1, Options(alloc=True, beta=1)), "beta"),
    ],
)
def test_cells_that_cannot_exist_say_why(arguments, words):
    with pytest.raises(ValueError, match=words):
        Cell(*arguments)


def test_a_name_that_is_another_cells_is_refused():
    document = Cell("dot", "float32", (4,), 1).to_json() | {"name": "dot.float32.5.t1"}
    with pytest.raises(ValueError, match="not this cell's"):
        Cell.from_json(document)


def test_every_routine_and_dtype_is_possible():
    shapes = {"gemm": (2, 2, 2), "gemv": (2, 2), "dot": (2,)}
    dtypes = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
    for (routine, shape), dtype in itertools.product(shapes.items(), dtypes):
        assert cell_problem(Cell(routine, dtype, shape, 1)) is None
