"""Which backends `auto` takes on which machine, and why the others are left out."""

from __future__ import annotations

import pytest

from tests.plan.conftest import ARM, LINUX, LINUX_GPU, MAC, block

GRID = {"grid": [block()]}
CPU_VENV = {
    *("numpy-openblas", "scipy-openblas", "cblas-openblas"),
    *("torch-cpu", "jax-cpu", "mlx-cpu"),
}


@pytest.mark.parametrize(
    ("target", "deploy", "expected"),
    [
        (LINUX, "venv", CPU_VENV | {"cblas-mkl"}),
        (LINUX, "conda", CPU_VENV | {"cblas-mkl", "numpy-mkl", "numpy-blis", "cblas-blis"}),
        (LINUX_GPU, "venv", CPU_VENV | {"cblas-mkl", "torch-cuda", "torch-cuda-tf32", "jax-cuda"}),
        (ARM, "venv", CPU_VENV),
        (ARM, "conda", CPU_VENV | {"numpy-blis", "cblas-blis"}),
        (
            MAC,
            "venv",
            {"cblas-openblas", "cblas-accelerate", "numpy-accelerate", "torch-cpu", "torch-mps"}
            | {"jax-cpu", "mlx-cpu", "mlx-gpu"},
        ),
        (
            MAC,
            "conda",
            CPU_VENV | {"numpy-accelerate", "cblas-accelerate", "torch-mps", "mlx-gpu"},
        ),
    ],
)
def test_auto(project, target, deploy, expected):
    plan = project.on(target).plan(GRID, deploy=deploy)
    assert {cell.backend for cell in plan.cells} == expected
    assert plan.skipped == []


@pytest.mark.parametrize(
    ("target", "deploy", "backend", "reason"),
    [
        (LINUX, "venv", "numpy-mkl", "there is no envs/numpy-mkl.txt, because pip cannot provide"),
        (ARM, "conda", "numpy-mkl", "MKL is made for x86-64 only"),
        (MAC, "conda", "numpy-blis", "github.com/flame/blis/issues/930"),
        (MAC, "venv", "numpy-openblas", "pip's packages do not give numpy-openblas on macos-arm64"),
        (LINUX, "venv", "torch-mps", "MPS needs the GPU of an Apple-silicon Mac"),
        (LINUX, "venv", "torch-cuda", "no NVIDIA driver here"),
        (MAC, "conda", "jax-cuda", "there is no CUDA on macOS"),
        (LINUX, "conda", "numpy-site", "runs only with DEPLOY=none"),
    ],
)
def test_named_backends_that_cannot_run_stay_with_their_reason(
    project, target, deploy, backend, reason
):
    grid = [block(backends=[backend, "torch-cpu"], shapes=[8, 16])]
    plan = project.on(target).plan({"grid": grid}, deploy=deploy)
    assert {cell.backend for cell in plan.cells} == {"torch-cpu"}
    assert {(one.backend, one.status) for one in plan.skipped} == {(backend, "unsupported")}
    assert len(plan.skipped) == 2
    assert all(reason in one.reason for one in plan.skipped)


def test_a_platform_without_a_written_reason_lists_those_that_work(project):
    other = LINUX.__class__("riscv", "linux-riscv64", cuda=False, cpus=4, cores=4)
    grid = [block(backends=["torch-cpu"])]
    with pytest.raises(
        ValueError, match=r"torch-cpu runs on linux-x86_64, .*; this is linux-riscv"
    ):
        project.on(other).plan({"grid": grid})


def test_patterns_mean_what_can_run_here(project):
    plan = project.plan({"grid": [block(backends=["torch-*", "numpy-*"])]})
    assert {cell.backend for cell in plan.cells} == {"torch-cpu", "numpy-openblas"}
    assert plan.skipped == []


def test_mixed_auto_and_names(project):
    plan = project.plan({"grid": [block(backends=["auto", "torch-cuda"])]})
    assert {cell.backend for cell in plan.cells} == CPU_VENV | {"cblas-mkl"}
    assert {one.backend for one in plan.skipped} == {"torch-cuda"}


def test_a_sites_own_interpreter_needs_no_environment(project):
    path = project.root / "config/backends.yaml"
    python = project.root / "python"
    python.write_text("#!/bin/sh\n")
    entry = "mine:\n  adapter: numpy\n  platforms: [linux-x86_64]\n  dtypes: [float32]\n"
    path.write_text(f"{path.read_text()}{entry}  python: {python}\n")
    grid = {"grid": [block(backends=["mine", "torch-cpu"])]}
    (skipped,) = project.plan(grid).skipped
    assert "is not there or cannot be executed" in skipped.reason
    python.chmod(0o755)
    assert {cell.backend for cell in project.plan(grid).cells} == {"mine", "torch-cpu"}


@pytest.mark.parametrize(
    ("version", "left_out"), [("14.7", True), ("15.4.1", True), ("15.5", False), ("26.0", False)]
)
def test_accelerate_from_conda_needs_a_newer_macos(project, monkeypatch, version, left_out):
    """A test double of macOS's version. The unsolvable environment would stop all of `auto`."""
    monkeypatch.setattr("platform.mac_ver", lambda: (version, ("", "", ""), "arm64"))
    accelerate = {"numpy-accelerate", "cblas-accelerate"}
    on_mac = project.on(MAC)
    found = {cell.backend for cell in on_mac.plan(GRID, deploy="conda").cells}
    assert "torch-cpu" in found
    assert found & accelerate == (set() if left_out else accelerate)
    assert accelerate <= {cell.backend for cell in on_mac.plan(GRID, deploy="venv").cells}
    if left_out:
        named = {"grid": [block(backends=["numpy-accelerate", "torch-cpu"])]}
        [skipped] = on_mac.plan(named, deploy="conda").skipped
        assert f"need macOS 15.5 or newer; this is {version}" in skipped.reason
