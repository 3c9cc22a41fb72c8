"""What a measured process inherits, what it does not, and what is recorded of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from gemmgrid.measure.supervise.environment import (
    THREADS,
    is_suspicious,
    measured_environment,
    of_activation,
)

SHELL = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/home/alice",
    "LD_LIBRARY_PATH": "/home/alice/lib:/opt/lib:/home/alicex",
    "CUDA_VISIBLE_DEVICES": "GPU-5c8dfe21-77aa,1",
    "AWS_SECRET_ACCESS_KEY": "hunter2",
    "OMP_NUM_THREADS": "64",
    "OMP_PROC_BIND": "close",
    "OPENBLAS_CORETYPE": "Haswell",
    "NVIDIA_TF32_OVERRIDE": "1",
    "LD_PRELOAD": "/home/alice/hoard.so",
    "PYTHONPATH": "/home/alice/site",
    "PYTHONHASHSEED": "0",
    "PYTHON_VERSION": "3.11.7",
    "PYTHONUNBUFFERED": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "TORCH_SECRET_TOKEN": "hunter3",
}


def test_threads_are_the_cells():
    env, variables, dropped = measured_environment(3, "cpu", {}, SHELL)
    assert {env[name] for name in THREADS} == {"3"}
    assert variables["OPENBLAS_NUM_THREADS"] == "3"
    assert dropped["OMP_NUM_THREADS"] == "64"


def test_silent_influences_are_taken_and_recorded():
    env, _, dropped = measured_environment(2, "cpu", {}, SHELL)
    gone = {
        "OMP_PROC_BIND": "close",
        "OPENBLAS_CORETYPE": "Haswell",
        "NVIDIA_TF32_OVERRIDE": "1",
        "LD_PRELOAD": "~/hoard.so",
        "PYTHONPATH": "~/site",
        "PYTHONHASHSEED": "0",
        "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
        "TORCH_SECRET_TOKEN": "(not recorded)",
    }
    assert dropped == {**gone, "OMP_NUM_THREADS": "64"}
    assert not set(gone) & set(env)
    for kept in ("PATH", "HOME", "PYTHON_VERSION", "PYTHONUNBUFFERED", "AWS_SECRET_ACCESS_KEY"):
        assert env[kept] == SHELL[kept]


def test_no_secret_home_or_device_uuid_is_recorded():
    _, variables, dropped = measured_environment(2, "cuda", {"MKL_X": "1"}, SHELL)
    text = json.dumps([variables, dropped])
    for secret in ("hunter", "AWS_SECRET", "/home/alice/", "5c8dfe21"):
        assert secret not in text
    assert variables["LD_LIBRARY_PATH"] == "~/lib:/opt/lib:/home/alicex"
    assert variables["CUDA_VISIBLE_DEVICES"] == "GPU-…,1"


def test_the_device_is_counted_as_nvml_counts():
    env, variables, _ = measured_environment(1, "cuda", {}, SHELL)
    assert env["CUDA_VISIBLE_DEVICES"] == SHELL["CUDA_VISIBLE_DEVICES"]
    assert env["CUDA_DEVICE_ORDER"] == variables["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    own = measured_environment(1, "cuda", {}, {**SHELL, "CUDA_DEVICE_ORDER": "FASTEST_FIRST"})
    assert own.env["CUDA_DEVICE_ORDER"] == "FASTEST_FIRST"
    assert "CUDA_DEVICE_ORDER" not in measured_environment(1, "cpu", {}, SHELL).env


def test_a_backend_gets_what_it_asks_for():
    wanted = {"OPENBLAS_CORETYPE": "Zen", "MKL_INTERFACE_LAYER": "LP64"}
    env, variables, dropped = measured_environment(2, "cpu", wanted, SHELL)
    assert wanted.items() <= env.items()
    assert wanted.items() <= variables.items()
    assert dropped["OPENBLAS_CORETYPE"] == "Haswell"


def test_the_cells_threads_overrule_a_backend():
    env, variables, dropped = measured_environment(2, "cpu", {"OMP_NUM_THREADS": "7"}, {})
    assert env["OMP_NUM_THREADS"] == variables["OMP_NUM_THREADS"] == "2"
    assert dropped == {"OMP_NUM_THREADS": "7"}


def test_a_value_that_is_set_again_was_not_taken():
    assert measured_environment(4, "cpu", {}, {"MKL_NUM_THREADS": "4"}).dropped == {}


def test_a_site_keeps_its_module_path():
    env, variables, dropped = measured_environment(2, "cpu", {}, SHELL, keep=("PYTHONPATH",))
    assert env["PYTHONPATH"] == "/home/alice/site"
    assert variables["PYTHONPATH"] == "~/site"
    assert "PYTHONPATH" not in dropped


def test_what_a_conda_environment_s_activation_sets_stays():
    """As conda-forge's mkl does; threads and Python's own variables are not its to set."""
    hook = {"MKL_INTERFACE_LAYER": "LP64,GNU", "MKL_NUM_THREADS": "9", "PYTHONMALLOC": "debug"}
    kept = of_activation({**hook, "MKL_CBWR": "1", "PATH": "/x"}, {"MKL_CBWR": "2"})
    assert kept == {"MKL_INTERFACE_LAYER"}
    wanted, base = {"MKL_CBWR": "2"}, {**hook, "OPENBLAS_CORETYPE": "x"}
    env, variables, dropped = measured_environment(2, "cpu", wanted, base, keep=kept)
    assert env["MKL_INTERFACE_LAYER"] == variables["MKL_INTERFACE_LAYER"] == "LP64,GNU"
    assert (env["MKL_NUM_THREADS"], env["MKL_CBWR"]) == ("2", "2")
    assert set(dropped) == {"MKL_NUM_THREADS", "OPENBLAS_CORETYPE", "PYTHONMALLOC"}


@pytest.mark.parametrize(
    "name",
    [
        *("OPENBLAS_CORETYPE", "MKL_ENABLE_INSTRUCTIONS", "BLIS_ARCH_TYPE", "GOTO_NUM_THREADS"),
        *("KMP_AFFINITY", "GOMP_CPU_AFFINITY", "ONEDNN_DEFAULT_FPMATH_MODE", "DNNL_VERBOSE"),
        *("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "PYTORCH_CUDA_ALLOC_CONF", "ATEN_CPU_CAPABILITY"),
        *("CUBLAS_WORKSPACE_CONFIG", "CUBLASLT_LOG_LEVEL", "JAX_DEFAULT_MATMUL_PRECISION"),
        *("MLX_ENABLE_TF32", "VECLIB_MAXIMUM_THREADS", "NPY_DISABLE_CPU_FEATURES", "LD_AUDIT"),
        *("MALLOC_ARENA_MAX", "GLIBC_TUNABLES", "PYTHONMALLOC", "PYTHON_GIL", "PYTHONOPTIMIZE"),
        "PYTHONDONTWRITEBYTECODE",
    ],
)
def test_known_influences(name):
    assert is_suspicious(name)


@pytest.mark.parametrize(
    "name",
    ["PATH", "HOME", "LANG", "MKLROOT", "CUDA_HOME", "CUDA_VISIBLE_DEVICES", "TF_TOKEN_app",
     "SLURM_JOB_ID", "PYTHON_SHA256", "VIRTUAL_ENV", "TMPDIR", "LD_LIBRARY_PATH"],
)  # fmt: skip
def test_harmless_names(name):
    assert not is_suspicious(name)


def test_a_process_starts_with_it():
    """The environment is complete enough for an interpreter, which sees the cell's threads."""
    base = {**os.environ, "OMP_NUM_THREADS": "9"}
    measured = measured_environment(2, "cpu", {}, base)
    code = "import os, sys; print(os.environ['OMP_NUM_THREADS'], sys.flags.no_user_site)"
    output = subprocess.run(
        [sys.executable, "-c", code], env=measured.env, capture_output=True, text=True, check=True
    ).stdout
    assert output.split() == ["2", "1"]
