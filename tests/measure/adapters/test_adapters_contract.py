"""What holds for adapters in general: names, loading, options, statements, parts for GPUs."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gemmgrid.measure import adapters
from gemmgrid.measure.adapters import _cuda
from gemmgrid.measure.adapters.base import sibling
from gemmgrid.measure.adapters.torch import CudaTimer
from gemmgrid.measure.invocation import operands
from gemmgrid.records.cell import Cell, Options
from tests.measure.interpreters import ROOT, run

STATEMENTS = """
import json, sys
from gemmgrid.measure import adapters
from gemmgrid.measure.invocation import operands
from gemmgrid.records.cell import Cell
name, device, options, *cells = sys.argv[1:]
adapter = adapters.load(name)(device, json.loads(options))
calls = []
for cell in map(Cell.parse, cells):
    call = adapter.prepare(cell, operands.make(cell, 1))
    calls.append([call.statement, call.where])
print(json.dumps(calls))
"""


def statements(environment: str, options: str, *cells: str) -> list[list[Any]]:
    adapter = environment.split("-", maxsplit=1)[0]
    said = run(environment, "-c", STATEMENTS, adapter, "cpu", options, *cells)
    return json.loads(said)


def test_the_folder_lists_the_adapters() -> None:
    assert adapters.NAMES == ("cblas", "jax", "mlx", "numpy", "scipy", "torch")


def test_loading_an_adapter_imports_no_library_but_numpy() -> None:
    program = """
import sys
from gemmgrid.measure import adapters
for name in adapters.NAMES:
    adapters.load(name)
print([name for name in ("torch", "mlx", "jax", "scipy") if name in sys.modules])
"""
    assert run("numpy-openblas", "-c", program).strip() == "[]"


def test_every_adapter_names_its_library_after_its_file() -> None:
    assert {name: adapters.load(name).library for name in adapters.NAMES} == {
        name: name for name in adapters.NAMES
    }


def test_an_unknown_adapter_is_refused_with_those_that_exist() -> None:
    with pytest.raises(ValueError, match=r"'numpi' is none of cblas, jax, mlx, numpy"):
        adapters.load("numpi")


def test_an_adapter_elsewhere_is_loaded_by_its_modules_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "elsewhere"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "mine.py").write_text(
        "from gemmgrid.measure.adapters.numpy import NumpyAdapter\n"
        "class Mine(NumpyAdapter):\n    library = 'mine'\n"
    )
    (package / "none.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    assert adapters.load("elsewhere.mine").library == "mine"
    with pytest.raises(ValueError, match=r"elsewhere.none defines 0 adapters"):
        adapters.load("elsewhere.none")


def test_a_wrong_device_is_refused_with_those_that_exist() -> None:
    with pytest.raises(ValueError, match="device 'cuda' is none of cpu"):
        adapters.load("numpy")("cuda", {})


def test_an_option_that_the_adapter_does_not_take_is_refused() -> None:
    with pytest.raises(ValueError, match=r"takes no option 'libary', only library, path"):
        adapters.load("cblas")("cpu", {"libary": "mkl"})


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, ValueError, "must name a `library` or a `path`"),
        ({"library": "atlas"}, ValueError, "'atlas' is none of openblas, mkl, blis"),
        ({"path": "/nowhere/libblas.so"}, OSError, "/nowhere/libblas.so"),
        ({"path": "/nowhere/x.so", "interface": "int64"}, ValueError, "'int64' is none of lp64"),
    ],
)
def test_cblas_says_what_is_wrong_with_its_options(
    options: dict[str, str], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        adapters.load("cblas")("cpu", options)


def test_cblas_says_where_it_looked_for_a_library_that_is_not_there() -> None:
    with pytest.raises(FileNotFoundError, match=r"no blis library .*looked for .*libblis"):
        adapters.load("cblas")("cpu", {"library": "blis"})


@pytest.mark.parametrize(
    ("environment", "device", "missing"),
    [("torch-cpu", "mps", "MPS"), ("mlx-cpu", "gpu", "GPU"), ("jax-cpu", "cuda", "CUDA")],
)
def test_a_missing_device_is_named(environment: str, device: str, missing: str) -> None:
    if sys.platform == "darwin" and device != "cuda":
        pytest.skip("hardware: a Mac has this device")
    program = f"""
from gemmgrid.measure import adapters
try:
    adapters.load({environment.split("-", maxsplit=1)[0]!r})({device!r}, {{}})
except OSError as error:
    print(type(error).__name__, error)
"""
    said = run(environment, "-c", program)
    assert said.startswith("DeviceMissing")
    assert missing in said


def test_numpys_statements_are_what_a_user_writes() -> None:
    cells = [
        *("gemm.float32.4x5x6.t1", "gemm.float32.4x5x6.t1.tn", "gemm.float32.4x5x6.t1.nt.b3"),
        *("gemm.float32.4x5x6.t1.alloc", "gemv.float32.4x5.t1", "gemv.float32.4x5.t1.tn.alloc"),
        *("gemv.float32.4x5.t1.ld8", "dot.float32.9.t1"),
    ]
    assert [statement for statement, _ in statements("numpy-openblas", "{}", *cells)] == [
        "np.matmul(A, B, out=C)",
        "np.matmul(A.T, B, out=C)",
        "np.matmul(A, B.mT, out=C)",
        "C = A @ B",
        "np.dot(A, x, out=y)",
        "y = A.T @ x",
        "np.matmul(A, x, out=y)",
        "c = np.dot(x, y)",
    ]


def test_scipys_statements_turn_row_major_products_round() -> None:
    cells = [
        *("gemm.float32.4x5x6.t1", "gemm.float32.4x5x6.t1.colmajor"),
        *("gemm.complex64.4x5x6.t1.nc.alpha2.beta-1", "gemm.float32.4x5x6.t1.alloc"),
        *("gemv.float64.4x5.t1", "gemv.float64.4x5.t1.tn", "dot.complex128.9.t1"),
    ]
    assert [statement for statement, _ in statements("scipy-openblas", "{}", *cells)] == [
        "sgemm(1.0, B.T, A.T, c=C.T, overwrite_c=1)",
        "sgemm(1.0, A, B, c=C, overwrite_c=1)",
        "cgemm(2.0, B.T, A.T, beta=-1.0, c=C.T, trans_a=2, overwrite_c=1)",
        "C = sgemm(1.0, B.T, A.T).T",
        "dgemv(1.0, A.T, x, y=y, trans=1, overwrite_y=1)",
        "dgemv(1.0, A.T, x, y=y, overwrite_y=1)",
        "c = zdotu(x, y)",
    ]


def test_cblas_statements_spell_out_the_call() -> None:
    cells = [
        *("gemm.float32.4x5x6.t1", "gemm.complex64.4x5x6.t1.nc.colmajor"),
        *("gemv.float64.4x5.t1.tn", "dot.float32.9.t1", "dot.complex64.9.t1"),
    ]
    found = statements("cblas-openblas", '{"library": "openblas"}', *cells)
    assert [statement for statement, _ in found] == [
        "cblas_sgemm(RowMajor, NoTrans, NoTrans, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc)",
        "cblas_cgemm(ColMajor, NoTrans, ConjTrans, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc)",
        "cblas_dgemv(RowMajor, Trans, m, n, alpha, A, lda, x, one, beta, y, one)",
        "c = cblas_sdot(n, x, one, y, one)",
        "cblas_cdotu_sub(n, x, one, y, one, c)",
    ]
    assert found[0][1] == "alpha = 1.0, beta = 0.0"


def test_torch_statements_are_what_a_user_writes() -> None:
    cells = [
        *("gemm.bfloat16.4x5x6.t1", "gemm.complex64.4x5x6.t1.ct", "gemm.float32.4x5x6.t1.cn"),
        *("gemm.float32.4x5x6.t1.beta1", "gemm.float32.4x5x6.t1.b3.alpha2"),
        *("gemv.float32.4x5.t1", "gemv.float32.4x5.t1.beta1", "gemv.float32.4x5.t1.alloc"),
        "dot.float32.9.t1",
    ]
    assert [statement for statement, _ in statements("torch-cpu", "{}", *cells)] == [
        "torch.matmul(A, B, out=C)",
        "torch.matmul(A.mH, B.mT, out=C)",
        "torch.matmul(A.mT, B, out=C)",
        "torch.addmm(C, A, B, beta=1.0, alpha=1.0, out=C)",
        "torch.baddbmm(C, A, B, beta=0.0, alpha=2.0, out=C)",
        "torch.mv(A, x, out=y)",
        "torch.addmv(y, A, x, beta=1.0, alpha=1.0, out=y)",
        "y = torch.mv(A, x)",
        "c = torch.dot(x, y)",
    ]


def test_mlx_statements_evaluate_what_they_build() -> None:
    cells = [
        *("gemm.float16.4x5x6.t1", "gemm.float32.4x5x6.t1.tn.b3", "gemv.float32.4x5.t1"),
        *("gemm.float32.4x5x6.t1.alpha2.beta1", "dot.float32.9.t1"),
    ]
    assert [statement for statement, _ in statements("mlx-cpu", "{}", *cells)] == [
        "C = mx.matmul(A, B); mx.eval(C)",
        "C = mx.matmul(mx.swapaxes(A, -1, -2), B); mx.eval(C)",
        "y = mx.matmul(A, x); mx.eval(y)",
        "C = mx.addmm(C0, A, B, 2.0, 1.0); mx.eval(C)",
        "c = mx.inner(x, y); mx.eval(c)",
    ]


def test_jax_statements_wait_and_say_what_was_compiled() -> None:
    cells = [
        *("gemm.float32.4x5x6.t1", "gemm.complex64.4x5x6.t1.nc.alpha2.beta1"),
        *("gemv.float32.4x5.t1", "dot.float32.9.t1"),
    ]
    assert statements("jax-cpu", "{}", *cells) == [
        ["C = matmul(A, B).block_until_ready()", "matmul = jax.jit(lambda A, B: A @ B)"],
        [
            "C = matmul(A, B, C0).block_until_ready()",
            "matmul = jax.jit(lambda A, B, C0: 2.0 * (A @ B.mT.conj()) + 1.0 * C0)",
        ],
        ["y = matmul(A, x).block_until_ready()", "matmul = jax.jit(lambda A, x: A @ x)"],
        ["c = matmul(x, y).block_until_ready()", "matmul = jax.jit(lambda x, y: x @ y)"],
    ]


@pytest.mark.parametrize("options", [{}, {"pad": 3}, {"layout": "F", "pad": 3}, {"batch": 2}])
@pytest.mark.parametrize("unaligned", [False, True])
def test_a_sibling_lies_as_the_original_does(options: dict[str, Any], unaligned: bool) -> None:
    cell = Cell("gemm", "bfloat16", (5, 6, 7), 1, Options(**options, unaligned=unaligned))
    array = operands.make(cell, 1).A
    copy = sibling(array, np.int16)
    assert copy.shape == array.shape
    assert [2 * stride for stride in copy.strides] == list(array.strides)
    assert copy.ctypes.data % 64 == array.ctypes.data % 64 == (16 if unaligned else 0)
    copy[...] = 1  # all of it is memory of its own
    assert copy.sum() == array.size


def test_tensors_on_a_device_lie_as_the_operands_do() -> None:
    """The placement that CUDA and MPS use, tried with the CPU as the device."""
    program = """
import torch
from gemmgrid.measure.invocation import operands
from gemmgrid.measure.adapters.torch import on_device
from gemmgrid.records.cell import Cell
for name in (
    "gemm.float32.5x6x7.t1", "gemm.float16.5x6x7.t1.b3.ld5.unaligned", "gemv.float64.5x6.t1",
    "gemm.bfloat16.5x6x7.t1.colmajor.ld5.unaligned", "gemm.complex128.5x6x7.t1.unaligned",
):
    cell = Cell.parse(name)
    given = operands.make(cell, 1)
    for array in (given.A, given.B):
        dtype = getattr(torch, cell.dtype)
        tensor = on_device(torch, array, dtype, "cpu")
        assert tensor.dtype == dtype, name
        assert tensor.data_ptr() % 64 == array.ctypes.data % 64, name
        assert [stride * array.itemsize for stride in tensor.stride()] == list(array.strides), name
        assert torch.equal(tensor, torch.from_numpy(array).to(dtype)), name
        assert tensor.data_ptr() != array.ctypes.data, name
print("right")
"""
    assert run("torch-cpu", "-c", program).strip() == "right"


def test_torch_precision_options_take_effect_and_are_recorded() -> None:
    program = """
import json
from gemmgrid.measure import adapters
options = {"float32_matmul_precision": "high", "reduced_precision_reduction": False}
print(json.dumps(adapters.load("torch")("cpu", options).identify()["precision"]))
"""
    precision = json.loads(run("torch-cpu", "-c", program))
    assert precision["float32_matmul_precision"] == "high"
    assert precision["cuda.fp16_reduced"] is precision["cuda.bf16_reduced"] is False


def test_jax_precision_option_takes_effect_and_is_recorded() -> None:
    program = """
from gemmgrid.measure import adapters
adapter = adapters.load("jax")("cpu", {"default_matmul_precision": "highest"})
print(adapter.identify()["precision"]["jax_default_matmul_precision"])
"""
    assert run("jax-cpu", "-c", program).strip() == "highest"


class EventDouble:
    """Test double of a CUDA event: a clock that moves 0.25 ms from one record to the next."""

    now_ms = 0.0

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing
        self.waited = False

    def record(self) -> None:
        type(self).now_ms += 0.25
        self.at = type(self).now_ms

    def synchronize(self) -> None:
        self.waited = True

    def elapsed_time(self, other: EventDouble) -> float:
        assert other.waited, "the time was asked for before the event had happened"
        return other.at - self.at


def test_cuda_timer_waits_and_gives_nanoseconds() -> None:
    class Torch:
        class cuda:  # noqa: N801
            Event = EventDouble

    timer = CudaTimer(Torch)
    timer.start()
    timer.stop()
    assert timer.read() == 250_000


def test_driver_version_is_read_from_what_the_kernel_module_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\n"
    (tmp_path / "version").write_text(said + "GCC version:  gcc version 13.3.0\n")
    monkeypatch.setattr(_cuda, "DRIVER", tmp_path / "version")
    assert _cuda.driver_version() == "580.65.06"
    monkeypatch.setattr(_cuda, "DRIVER", tmp_path / "none")
    assert _cuda.driver_version() is None


def test_without_cublas_its_identity_says_so() -> None:
    library = _cuda.cublas()
    assert library["file"] is None
    assert library["version"] is None
    assert "no libcublas is mapped" in library["unknown"]["file"]


def test_sets_rotate_only_what_differs() -> None:
    adapter = adapters.load("numpy")("cpu", {})
    cell = Cell("gemm", "float64", (6, 5, 4), 1, Options(cold=True))
    several = [operands.make(cell, seed) for seed in (1, 2, 3)]
    call = adapter.prepare_sets(cell, several)
    assert call.sets is not None
    assert [set(one) for one in call.sets] == [{"A", "B", "C"}] * 3
    assert [one["A"] is given.A for one, given in zip(call.sets, several, strict=True)] == [
        True
    ] * 3
    assert call.poison is not None
    call.poison()
    assert all(given.C is not None and np.isnan(given.C).all() for given in several)


def test_padding_of_a_result_is_never_written() -> None:
    adapter = adapters.load("numpy")("cpu", {})
    cell = Cell("gemm", "float64", (6, 5, 4), 1, Options(pad=3))
    given = operands.make(cell, 1)
    assert given.C is not None
    base = np.lib.stride_tricks.as_strided(given.C, (6, 8), given.C.strides)
    call = adapter.prepare(replace(cell), given)
    assert call.poison is not None
    call.poison()
    exec(call.statement, call.names)
    assert (base[:, 5:] == 0).all()
    assert np.allclose(given.C, given.A @ given.B)


def test_the_project_has_a_file_for_every_adapter_that_it_lists() -> None:
    folder = ROOT / "workflow/gemmgrid/measure/adapters"
    assert {f"{name}.py" for name in adapters.NAMES} < {path.name for path in folder.iterdir()}
