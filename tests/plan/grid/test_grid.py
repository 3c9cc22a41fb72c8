"""What a grid's blocks multiply out to."""

from __future__ import annotations

import json

import pytest

from gemmgrid.plan import ConfigError
from gemmgrid.records.cell import Cell
from tests.plan.conftest import LINUX, LINUX_GPU, block, names

NUMPY = {"backends": ["numpy-openblas"]}


def test_a_block_multiplies_dtypes_shapes_threads_and_options(project):
    grid = [
        block(
            shapes=[64, "64×32×16"],
            dtypes=["float32", "float64"],
            threads=[1, 2],
            options={"trans": ["nn", "nt"]},
            **NUMPY,
        )
    ]
    planned = names(project.plan({"grid": grid}))
    assert len(planned) == len(set(planned)) == 16
    assert planned[:3] == [
        "gemm.float32.64x64x64.t1",
        "gemm.float32.64x64x64.t1.nt",
        "gemm.float32.64x64x64.t2",
    ]
    assert planned[-1] == "gemm.float64.64x32x16.t2.nt"


def test_a_list_of_option_mappings_does_not_mix_them(project):
    options = [{}, {"batch": [4, 8]}, {"alpha": 2, "beta": 1}]
    planned = names(project.plan({"grid": [block(options=options, **NUMPY)]}))
    assert planned == [
        "gemm.float32.64x64x64.t1",
        "gemm.float32.64x64x64.t1.b4",
        "gemm.float32.64x64x64.t1.b8",
        "gemm.float32.64x64x64.t1.alpha2.beta1",
    ]


def test_equal_cells_collapse_within_and_across_blocks(project):
    grid = [
        block(shapes=[64, "64x64x64", [64, 64, 64]], options=[{}, {"batch": 1}], **NUMPY),
        block(shapes=[64, 128], threads=[1, 1], **NUMPY),
    ]
    assert names(project.plan({"grid": grid})) == [
        "gemm.float32.64x64x64.t1",
        "gemm.float32.128x128x128.t1",
    ]


def test_whole_numbers_and_floats_name_the_same_alpha(project):
    grid = [block(options={"alpha": [2, 2.0, "2"]}, **NUMPY)]
    plan = project.plan({"grid": grid})
    assert len(plan.cells) == 1
    assert json.loads(plan.cells[0].spec)["cell"]["options"] == {"alpha": 2.0}


@pytest.mark.parametrize(("written", "name"), [("t", "tn"), ("tn", "tn"), ("c", "cn")])
def test_gemv_takes_one_letter_for_its_transpose(project, written, name):
    grid = [block("gemv", "8x4", options={"trans": written}, **NUMPY)]
    assert names(project.plan({"grid": grid})) == [f"gemv.float32.8x4.t1.{name}"]


def test_threads_by_word(project):
    grid = [block(threads=["all", "physical", 3, "all"], **NUMPY)]
    planned = names(project.on(LINUX).plan({"grid": grid}))
    assert [Cell.parse(name).threads for name in planned] == [8, 4, 3]


def test_threads_doubling_ends_with_all(project):
    grid = [block(threads="doubling", **NUMPY)]
    planned = names(project.on(LINUX).plan({"grid": grid}))
    assert [Cell.parse(name).threads for name in planned] == [1, 2, 4, 8]


def test_gpu_cells_have_one_thread_and_are_not_repeated(project):
    grid = [block(backends=["torch-cuda", "torch-cpu"], threads=[1, 2, "all"])]
    plan = project.on(LINUX_GPU).plan({"grid": grid})
    assert names(plan, "torch-cuda") == ["gemm.float32.64x64x64.t1"]
    assert len(names(plan, "torch-cpu")) == 3


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (block("gemv", "4x4x4"), ["grid[1].shapes", "gemv takes 2 dimensions", "has 3"]),
        (block("dot", 64, options={"batch": 2}), ["grid[1]:", "batch needs gemm, not dot"]),
        (block(shapes="4x5x6", options={"reuse": True}), ["grid[1]:", "4×5×6", '"reuse": true']),
        (block("dot", 4, options={"trans": "tn"}), ["grid[1]:", "nothing to transpose"]),
        (block("gemv", 4, options={"trans": "nt"}), ["grid[1]:", "gemv transposes only A"]),
        (block(options={"alloc": True, "beta": 1}), ["grid[1]:", "beta must be 0"]),
    ],
)
def test_what_no_machine_can_do_is_an_error_that_names_the_block(project, entry, words):
    with pytest.raises(ConfigError) as caught:
        project.plan({"grid": [block(), entry]})
    for word in words:
        assert word in str(caught.value)


def test_a_dtype_that_a_library_lacks_is_unsupported_without_a_process(project):
    grid = [block(backends=["numpy-openblas", "torch-cpu"], dtypes="bfloat16")]
    plan = project.plan({"grid": grid})
    assert [cell.backend for cell in plan.cells] == ["torch-cpu"]
    (skipped,) = plan.skipped
    assert (skipped.backend, skipped.status) == ("numpy-openblas", "unsupported")
    assert skipped.reason == "numpy-openblas has no bfloat16"
