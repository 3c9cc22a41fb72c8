"""Whether a backend can run on a machine, decided without starting or importing anything of it.

What cannot be seen this way (a driver too old, a wheel that is broken) is found by the run itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from gemmgrid.plan import hardware
from gemmgrid.plan.config.errors import ConfigError, choose
from gemmgrid.plan.config.machines import Target
from gemmgrid.plan.config.registry import Backend
from gemmgrid.plan.environments import DEPLOYS
from gemmgrid.plan.environments.interpreters import Host, packages_of, probe
from gemmgrid.system.project import find

_LIBRARY_PACKAGES = {"openblas": "scipy_openblas64"}
_LIBRARY_FILES = {"mkl": "libmkl_rt", "netlib": "libcblas"}


class Availability:
    """Answers, for one deploy mode and project folder, why a backend cannot run somewhere.

    `modules` says whether Snakemake loads environment modules (--use-envmodules).
    """

    def __init__(
        self, deploy: str, root: Path, registry: Iterable[Backend], modules: bool = False
    ) -> None:
        if deploy not in DEPLOYS:
            raise ConfigError([f"deploy is {deploy!r}. {choose(deploy, DEPLOYS)}"])
        self.deploy = deploy
        self.modules = modules
        self.root = root
        self.registry = list(registry)
        self._answers: dict[tuple[str, str], str | None] = {}

    def problem(self, backend: Backend, target: Target) -> str | None:
        """Why this backend cannot run on this machine, as a phrase for people; None if it can."""
        key = (backend.name, target.name)
        if key not in self._answers:
            self._answers[key] = (
                self._platform(backend, target)
                or _device(backend, target)
                or self._interpreter(backend, target)
            )
        return self._answers[key]

    def _platform(self, backend: Backend, target: Target) -> str | None:
        platforms = backend.platforms
        here = target.platform
        if here in platforms:
            if self.deploy == "conda" and not backend.of_site and _macos_too_old(backend, target):
                return (
                    f"conda's packages for {backend.name} need macOS {backend.conda_macos} "
                    f"or newer; this is {hardware.macos_version()}"
                )
            if self.deploy != "venv" or backend.of_site or here in backend.venv_platforms:
                return None
            return (
                f"pip's packages do not give {backend.name} on {here}; "
                "conda may (DEPLOY=conda or --use-conda)"
            )
        reason = backend.reason.get(here)
        return reason or f"{backend.name} runs on {', '.join(platforms)}; this is {here}"

    def _interpreter(self, backend: Backend, target: Target) -> str | None:
        if backend.modules and not self.modules:
            names = " ".join(backend.modules)
            return f"its environment modules ({names}) are loaded only with --use-envmodules"
        if backend.modules and not backend.python:
            return None  # only loading them tells what they bring: see the run
        if backend.python:
            path = Path(backend.python).expanduser()
            usable = not target.local or (path.is_file() and os.access(path, os.X_OK))
            return None if usable else f"its interpreter {path} is not there or cannot be executed"
        if self.deploy == "none":
            # What a node behind SLURM has installed is for the run on that node to find out.
            return self._at_hand(backend) if target.local else None
        name = backend.environment
        made_by = {
            "venv": find(self.root, f"envs/{name}.txt"),
            "conda": find(self.root, f"envs/{name}.yaml"),
        }
        if made_by[self.deploy].exists():
            return None
        if self.deploy == "venv" and made_by["conda"].exists():
            return (
                f"there is no envs/{name}.txt, because pip cannot provide this environment; "
                "conda can (DEPLOY=conda or --use-conda)"
            )
        if not any(file.exists() for file in made_by.values()):
            return f"it has no environment (envs/{name}.yaml) and runs only with DEPLOY=none"
        return f"there is no envs/{name}.yaml to make its environment from"

    def _at_hand(self, backend: Backend) -> str | None:
        host = probe(str(self.root.resolve()))
        missing = [name for name in packages_of(backend.adapter) if name not in host.packages]
        if missing:
            return f"{host.python} has no {' and no '.join(missing)}"
        if backend.adapter == "cblas":
            return _library_missing(backend, host)
        built_on = _family(host.blas.get(backend.adapter))
        if backend.adapter not in host.blas:
            return None
        if backend.blas and built_on != backend.blas:
            found = host.blas.get(backend.adapter) or "a BLAS that it does not name"
            return f"the {backend.adapter} of {host.python} was built on {found}"
        if not backend.blas and self._promised(backend, built_on):
            return f"the {backend.adapter} of {host.python} is measured as {built_on}"
        return None

    def _promised(self, backend: Backend, built_on: str | None) -> bool:
        """Whether another entry of the same adapter promises the BLAS that was found."""
        return built_on is not None and any(
            other.adapter == backend.adapter
            and other.device == backend.device
            and other.blas == built_on
            for other in self.registry
        )


def _macos_too_old(backend: Backend, target: Target) -> bool:
    found, needed = hardware.macos_version() if target.local else "", backend.conda_macos
    return bool(needed and found) and _numbers(found) < _numbers(needed or "")


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdigit()]


def _device(backend: Backend, target: Target) -> str | None:
    if backend.device == "cuda" and not target.cuda:
        if target.local:
            return "no NVIDIA driver here (neither /proc/driver/nvidia nor /dev/nvidiactl)"
        return f"machine {target.name} asks for no GPU (gres) in config/machines.yaml"
    if backend.device in ("mps", "gpu") and not target.apple_gpu:
        return f"needs the GPU of an Apple-silicon Mac; this is {target.platform}"
    return None


def _family(name: str | None) -> str | None:
    """The BLAS family in a build's own words: `scipy-openblas` → openblas."""
    families = ("openblas", "mkl", "blis", "accelerate", "netlib")
    return next((family for family in families if name and family in name), None)


def _library_missing(backend: Backend, host: Host) -> str | None:
    """Why the BLAS library that a cblas backend calls is not at hand, or None."""
    path = backend.options.get("path")
    if path:
        return None if Path(path).expanduser().exists() else f"there is no library {path}"
    library = backend.options.get("library", "")
    if library == "accelerate" or _LIBRARY_PACKAGES.get(library) in host.packages:
        return None
    pattern = _LIBRARY_FILES.get(library, f"lib{library}")
    if any((Path(host.prefix) / "lib").glob(f"{pattern}.*")):
        return None
    return f"{host.prefix} has no {pattern} library"
