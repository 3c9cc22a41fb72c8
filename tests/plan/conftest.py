"""A project folder with the real registry, on a machine of the test's choosing."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from gemmgrid.plan import Plan, load
from gemmgrid.plan import plan as plan_module
from gemmgrid.plan.config.machines import Machine, Target

ROOT = Path(__file__).resolve().parents[2]
VENV_ENVIRONMENTS = (
    *("numpy-openblas", "scipy-openblas", "cblas-openblas", "cblas-mkl"),
    *("torch-cpu", "torch-cuda", "jax-cpu", "jax-cuda", "mlx-cpu", "mlx-gpu", "torch-mps"),
    "numpy-accelerate",
)
CONDA_ENVIRONMENTS = (*VENV_ENVIRONMENTS, "numpy-mkl", "numpy-blis")

LINUX = Target("test-linux", "linux-x86_64", cuda=False, cpus=8, cores=4)
LINUX_GPU = Target("test-gpu", "linux-x86_64", cuda=True, cpus=16, cores=8)
ARM = Target("test-arm", "linux-aarch64", cuda=False, cpus=64, cores=64)
MAC = Target("test-mac", "macos-arm64", cuda=False, cpus=12, cores=12)


class Project:
    """A folder with config/ and envs/ in which a test plans."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.monkeypatch = monkeypatch
        shutil.copytree(ROOT / "config", root / "config")
        (root / "envs").mkdir()
        for name in CONDA_ENVIRONMENTS:
            (root / f"envs/{name}.yaml").write_text("dependencies: [numpy]\n")
        for name in VENV_ENVIRONMENTS:
            (root / f"envs/{name}.txt").write_text("numpy\n")
        self.on(LINUX)

    def on(self, target: Target) -> Project:
        """Make this the machine that the plan finds itself on."""

        def local_target(name: str = "auto", entry: Machine | None = None) -> Target:
            named = target.name if name == "auto" else name
            return replace(
                target,
                name=named,
                backends=entry.backends if entry else None,
                threads=entry.threads if entry else None,
            )

        self.monkeypatch.setattr(plan_module, "local_target", local_target)
        return self

    def plan(self, config: Mapping[str, Any] | str, deploy: str = "venv", **more: Any) -> Plan:
        """Plan a config given as YAML (then it is study.yaml) or as a dict; `more` is --config."""
        files = []
        if isinstance(config, str):
            files = [self.root / "study.yaml"]
            files[0].write_text(config)
            config = yaml.safe_load(config)
        return load({**config, **more}, self.root, deploy, files)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    return Project(tmp_path, monkeypatch)


def block(routine: str = "gemm", shapes: Any = 64, **more: Any) -> dict[str, Any]:
    """A grid's block, short."""
    return {"routine": routine, "shapes": shapes, "threads": 1, **more}


def names(plan: Plan, backend: str = "numpy-openblas") -> list[str]:
    """The names of the planned cells of one backend, in the plan's order."""
    return [cell.name for cell in plan.cells if cell.backend == backend]
