"""Logs of MKL, oneDNN, cuBLAS, cuBLASLt, PyTorch's MPS side and XLA, as these libraries write them.

The CPU ones are also read live in the mapping tests; the GPU ones are texts from public logs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from gemmgrid.measure.dispatch.library_logs import (
    cpu_libraries,
    gpu_libraries,
    switch_on,
    xla_program,
)
from tests.measure.interpreters import run, variables

MKL = """\
MKL_VERBOSE oneMKL 2024.0 Update 2 Product build 20240605 for Intel(R) 64 architecture, lp64
MKL_VERBOSE SGEMM(N,T,512,256,128,0x7ffc68323440,0x7f464e829040,512,0x55c2eae15600,256,0x7ffc6832,0x7f464e728040,512) 10.54ms CNR:OFF Dyn:0 FastMM:1 TID:0  NThr:2
MKL_VERBOSE DDOT(1000,0x7f,1,0x7f,-1) 1.20us CNR:OFF Dyn:0 FastMM:1 TID:0  NThr:1
MKL_VERBOSE DGETRF(3,3,0x7f,3,0x7f,0) 2.00us CNR:OFF Dyn:0 FastMM:1 TID:0  NThr:1
"""  # noqa: E501
ONEDNN = """\
onednn_verbose,v1,info,oneDNN v3.12.0 (commit 80afa71049cd69a3df32adcccb623b12cd7baa22)
onednn_verbose,v1,primitive,info,template:operation,engine,primitive,implementation,prop_kind,memory_descriptors,attributes,auxiliary,problem_desc,exec_time
onednn_verbose,v1,primitive,exec,cpu,reorder,jit:uni,undef,src:f32::blocked:ab::f0 dst:bf16::blocked:ab::f0,,,512x512,0.2
onednn_verbose,v1,primitive,exec,cpu,matmul,brg_matmul:avx512_core_bf16,undef,src:bf16::blocked:ab::f0 wei:bf16::blocked:ab::f0 dst:bf16::blocked:ab::f0,attr-scratchpad:user,,512x256:256x128,1.34399
"""  # noqa: E501
CUBLAS = """\
I! cuBLAS (v13.4.1) function cublasStatus_t cublasCreate_v2(cublasContext**) called:
i!  handle: type=cublasHandle_t; val=POINTER (IN HEX:0x0x1f9448f0)
i! Time: 2026-09-11T18:11:38 elapsed from start 0.016667 minutes or 1.000000 seconds
I! cuBLAS (v13.4.1) function cublasStatus_t cublasSgemm_v2(cublasHandle_t, cublasOperation_t, int) called:
i!  handle: type=cublasHandle_t; val=POINTER (IN HEX:0x0x1f9560f0)
i!  transa: type=cublasOperation_t; val=CUBLAS_OP_T(1)
i!  transb: type=cublasOperation_t; val=CUBLAS_OP_N(0)
i!  m: type=int; val=2
i!  n: type=int; val=1
i!  k: type=int; val=3
i!  alpha: type=float; val=POINTER (IN HEX:0x0x7ffda216dedc)
i!  A: type=float; val=POINTER (IN HEX:0x0x504e20400)
i!  lda: type=int; val=3
i!Process=10673; Thread=123934205857792; GPU=0; Handle=POINTER (IN HEX:0x0x1f9560f0); MathMode=CUBLAS_DEFAULT_MATH
"""  # noqa: E501
CUBLASLT = (
    "[2025-11-03 19:02:38][cublasLt][557785][Api][cublasLtMatmulDescCreate] desc=0X7F\n"
    "[2025-11-03 19:02:38][cublasLt][557785][Trace][cublasLtMatmul] A=0X736CB315E800 "
    "Adesc=[type=R_16BF rows=1088 cols=64 ld=1088] B=0X736C9B644000 "
    "Bdesc=[type=R_16BF rows=1088 cols=128 ld=1088] C=0X0 "
    "Cdesc=[type=R_16BF rows=64 cols=128 ld=64] D=0X736CB30A4400 "
    "Ddesc=[type=R_16BF rows=64 cols=128 ld=64] "
    "computeDesc=[computeType=COMPUTE_32F scaleType=R_32F transa=OP_T] "
    "algo=[algoId=66 tile=MATMUL_TILE_128x128 stages=MATMUL_STAGES_128xAUTO] "
    "workSpace=0X0 workSpaceSizeInBytes=0 beta=0 outOfPlace=1 stream=0X0\n"
)
MPS = """\
aten::mm_out_mps_impl:f32[512,512]:f32[512,512] (id=G1, run=1, gpu=0.512 ms)
aten::matmul (id=K2, run=3)
aten::fill_scalar_mps_impl (id=G3, run=1)
"""
HLO = """\
HloModule jit_matmul, is_scheduled=true, entry_computation_layout={(bf16[8,8]{1,0})->bf16[8,8]{1,0}}

%fused_computation (param_0: f32[8,8], param_1: f32[8,8]) -> f32[8,8] {
  %param_0 = f32[8,8]{1,0} parameter(0)
  %param_1 = f32[8,8]{1,0} parameter(1)
  ROOT %dot_general.0 = f32[8,8]{1,0} dot(%param_0, %param_1), lhs_contracting_dims={1}
}

%wrapped_convert_computation (param_0.1: bf16[8,8]) -> f32[8,8] {
  %param_0.1 = bf16[8,8]{1,0} parameter(0)
  ROOT %convert.3 = f32[8,8]{1,0} convert(%param_0.1)
}

%wrapped_convert_computation.2 (param_0.3: f32[8,8]) -> bf16[8,8] {
  %param_0.3 = f32[8,8]{1,0} parameter(0)
  ROOT %convert.5 = bf16[8,8]{1,0} convert(%param_0.3)
}

ENTRY %main.1 (a.1: bf16[8,8], b.1: bf16[8,8]) -> bf16[8,8] {
  %a.1 = bf16[8,8]{1,0} parameter(0), metadata={op_name="a"}
  %wrapped_convert = f32[8,8]{1,0} fusion(%a.1), kind=kLoop, calls=%wrapped_convert_computation
  %ynn_fusion = f32[8,8]{1,0} fusion(%wrapped_convert, %wrapped_convert), kind=kCustom, \
calls=%fused_computation, backend_config={"fusion_config":{"kind":"__ynn_fusion"}}
  ROOT %wrapped_convert.2 = bf16[8,8]{1,0} fusion(%ynn_fusion), kind=kLoop, \
calls=%wrapped_convert_computation.2
}
"""
HLO_CUDA = """\
HloModule jit_matmul

ENTRY %main.4 (a.1: f32[64,32], b.1: f32[32,16]) -> f32[64,16] {
  %a.1 = f32[64,32]{1,0} parameter(0)
  %b.1 = f32[32,16]{1,0} parameter(1)
  %custom-call.1 = (f32[64,16]{1,0}, s8[4194304]{0}) custom-call(%a.1, %b.1), \
custom_call_target="__cublas$gemm", backend_config={"gemm_backend_config":{"beta":0}}
  ROOT %get-tuple-element = f32[64,16]{1,0} get-tuple-element(%custom-call.1), index=0
}
"""


def test_mkl_logs_its_blas_calls() -> None:
    gemm, dot = cpu_libraries.parse_mkl(MKL)
    assert (gemm.routine, gemm.symbol, gemm.library) == ("sgemm", "SGEMM", "oneMKL")
    assert gemm.arguments == {"transa": "n", "transb": "t", "m": 512, "n": 256, "k": 128,
                              "lda": 512, "ldb": 256, "ldc": 512, "threads": 2}  # fmt: skip
    assert dot.arguments == {"n": 1000, "incx": 1, "incy": -1, "threads": 1}


def test_onednn_logs_primitives_and_their_implementation() -> None:
    reorder, matmul = cpu_libraries.parse_onednn(ONEDNN)
    assert reorder.routine == "reorder"
    assert (matmul.routine, matmul.kernel) == ("matmul", "brg_matmul:avx512_core_bf16")
    assert {key: matmul.arguments[key] for key in "mnk"} == {"m": 512, "n": 128, "k": 256}
    assert matmul.arguments["src_type"] == "bf16"


def test_cublas_logs_the_product_among_other_calls() -> None:
    (call,) = gpu_libraries.parse_cublas(CUBLAS)
    assert (call.routine, call.symbol) == ("cublasSgemm", "cublasSgemm_v2")
    assert call.library == "cuBLAS 13.4.1"
    assert call.arguments == {"transa": "t", "transb": "n", "m": 2, "n": 1, "k": 3, "lda": 3}


def test_cublaslt_logs_shapes_types_and_the_algorithm() -> None:
    (call,) = gpu_libraries.parse_cublaslt(CUBLASLT)
    assert {key: call.arguments[key] for key in "mnk"} == {"m": 64, "n": 128, "k": 1088}
    assert call.arguments["A_type"] == "R_16BF"
    assert call.arguments["compute_type"] == "COMPUTE_32F"
    assert call.arguments["tile"] == "MATMUL_TILE_128x128"


def test_mps_tells_graphs_from_metal_kernels() -> None:
    graph, kernel = gpu_libraries.parse_mps(MPS)
    assert (graph.library, graph.routine) == ("MPSGraph", "MPSGraph matrixMultiplication")
    assert graph.symbol == "mm_out_mps_impl"
    assert (kernel.library, kernel.kernel) == ("Metal", "matmul")


def test_log_files_are_read_from_where_they_stood(tmp_path: Path) -> None:
    (tmp_path / gpu_libraries.CUBLAS_LOG).write_text(CUBLAS)
    before = gpu_libraries.log_sizes(tmp_path)
    assert gpu_libraries.read_logs(tmp_path, before) == []
    (tmp_path / gpu_libraries.CUBLASLT_LOG).write_text(CUBLASLT)
    assert [call.routine for call in gpu_libraries.read_logs(tmp_path, before)] == [
        "cublasLtMatmul"
    ]
    assert len(gpu_libraries.read_logs(tmp_path, {})) == 2


def test_kernels_of_the_device_are_ranked_by_their_time() -> None:
    times = Counter({"sgemm_128x128": 90.0, "Memset (Device)": 10.0})
    kernels = gpu_libraries.rank_kernels(times, Counter({"sgemm_128x128": 3, "Memset (Device)": 1}))
    assert [(k.name, k.count, k.share) for k in kernels] == [("sgemm_128x128", 3, 0.9)]


def test_switches_only_add_logging(tmp_path: Path) -> None:
    environ = {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
    switch_on("jax", "cpu", tmp_path, environ)
    assert environ["XLA_FLAGS"].startswith("--xla_cpu_multi_thread_eigen=false --xla_dump_to=")
    cuda: dict[str, str] = {}
    switch_on("torch", "cuda", tmp_path, cuda)
    assert all("LOG" in name for name in cuda)
    cpu: dict[str, str] = {}
    switch_on("torch", "cpu", tmp_path, cpu)
    switch_on("numpy", "cpu", tmp_path, cpu)
    assert cpu == {}


def test_a_program_names_its_product_its_carrier_and_the_conversions() -> None:
    program = xla_program.parse_program(HLO)
    (product,) = program.products
    assert (product.operation, product.carried_by) == ("dot", "__ynn_fusion")
    assert (product.type, product.shape, product.operands) == ("f32", (8, 8), ("f32", "f32"))
    assert program.conversions == [{"from": "bf16", "to": "f32", "bytes": 8 * 8 * 4}]


def test_a_program_for_cuda_names_the_library_call() -> None:
    (product,) = xla_program.parse_program(HLO_CUDA).products
    assert (product.operation, product.carried_by) == ("custom-call", "__cublas$gemm")


def test_the_newest_program_with_a_product_is_read(tmp_path: Path) -> None:
    old = tmp_path / "module_0001.jit_a.cpu_after_optimizations.txt"
    old.write_text(HLO_CUDA)
    os.utime(old, (1, 1))
    (tmp_path / "module_0002.jit_b.cpu_after_optimizations.txt").write_text(HLO)
    (tmp_path / "module_0003.jit_c.cpu_after_optimizations.txt").write_text("HloModule jit_c\n")
    program = xla_program.read_programs(tmp_path)
    assert program
    assert program.products[0].carried_by == "__ynn_fusion"
    assert xla_program.read_programs(tmp_path / "nothing") is None


def test_output_of_c_and_of_python_is_captured_and_restored() -> None:
    code = """
import ctypes, os
from gemmgrid.measure.dispatch.library_logs import cpu_libraries
libc = ctypes.CDLL(None)
print("before")
with cpu_libraries.captured(1) as output:
    print("from Python")
    libc.printf(b"from C\\n")
    os.write(1, b"from the system\\n")
print("afterwards", sorted(output.text.splitlines()))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env=variables(), capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "before",
        "afterwards ['from C', 'from Python', 'from the system']",
    ]


WATCHED_ON_CUDA = """
import json, sys, types
from pathlib import Path
from gemmgrid.measure.dispatch.evidence import observe
from gemmgrid.measure.dispatch.hidden_work import Asked
library, folder, said = sys.argv[1], Path(sys.argv[2]), sys.argv[3]


class Profiler:  # a test double of torch.profiler.profile: no kernels
    def __init__(self, activities):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        pass

    def events(self):
        return []


torch = types.ModuleType("torch")
torch.profiler = types.ModuleType("torch.profiler")
torch.profiler.profile = Profiler
torch.profiler.ProfilerActivity = types.SimpleNamespace(CPU=0, CUDA=1)
torch.cuda = types.SimpleNamespace(synchronize=lambda: None)
sys.modules.update({"torch": torch, "torch.profiler": torch.profiler})


def run():
    with (folder / "cublas.log").open("a") as log:
        log.write(said)


record = observe(run, Asked("float32", "gemm", library=library), device="cuda", folder=folder)
print(json.dumps([folder.joinpath("cublas.log").read_text().count("function"), record["routines"]]))
"""


@pytest.mark.parametrize(("library", "runs"), [("torch", 3), ("jax", 2)])
def test_logged_calls_are_those_of_one_run(tmp_path: Path, library: str, runs: int) -> None:
    """A product is run under the tracers and the profiler; the log holds all of these runs."""
    logged, routines = json.loads(
        run("numpy-openblas", "-c", WATCHED_ON_CUDA, library, str(tmp_path), CUBLAS)
    )
    calls = CUBLAS.count("function")
    assert logged == runs * calls
    assert [(one["evidence"], one["count"]) for one in routines] == [("logged", 1)]
