"""What a test channel holds: the wheels of envs/*.txt under conda-forge's names and build strings.

Fetched and made once, and kept in a folder of the system's temporary files, under a name that
changes with the pins.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import yaml
from packaging.utils import parse_wheel_filename

from tests.conda.channel import python
from tests.conda.channel.package import Channel, Package
from tests.conda.channel.wheels import NAMES, TAG, converted

ROOT = Path(__file__).resolve().parents[3]
LAYOUT = 1
"""Raised when packages are made in another way, so that kept channels are made anew."""
KEPT = Path(tempfile.gettempdir()) / f"gemmgrid-conda-{os.getuid()}"
BLAS_VERSION = "3.11.0"
MKL_PARTS = re.compile(
    r"lib/libmkl_(rt|core|intel_thread|intel_lp64|intel_ilp64|def|avx2|avx512|avx10)\.so\.\d+"
)
"""What a product needs of MKL's 690 MB."""

UNUSED = ("tbb-", "tcmlib-", "umf-", "intel_cmplr_lib_ur-")
"""Wheels that mkl's and intel-openmp's ask for, and no product uses."""


def channel_of(
    environments: Iterable[str], whole_python: bool = False, with_report: bool = False
) -> Path:
    """A channel from which these environments can be made; its folder.

    whole_python   a copy of the interpreter, as conda's packages are, instead of links to it
    with_report    also the environment of the tables and the page
    """
    chosen = sorted(environments)
    pins = [(ROOT / f"envs/{name}.txt").read_text() for name in chosen]
    more = report_pins() if with_report else []
    wanted = repr([LAYOUT, python.VERSION, chosen, pins, whole_python, more])
    place = KEPT / f"channel-{hashlib.sha256(wanted.encode()).hexdigest()[:16]}"
    if not place.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix="making-", dir=KEPT))
        try:
            _make(work / "channel", chosen, more, whole_python, work)
            (work / "channel").rename(place)
        except OSError:
            if not place.exists():  # another test run was not faster
                raise
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return place


def downloaded(
    environments: Iterable[str], into: Path, *more: str, pins: Iterable[str] = ()
) -> list[Path]:
    """The wheels that pip installs for these environments, from wherever the user's pip takes them.

    more   pip's options
    pins   requirements beside those of envs/*.txt
    CalledProcessError, with pip's words in `stderr`, where pip finds none.
    """
    into.mkdir(parents=True, exist_ok=True)
    wanted = [["--requirement", str(ROOT / f"envs/{name}.txt")] for name in environments]
    for requirement in [*wanted, list(pins)]:
        if not requirement:
            continue
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary", ":all:"]
        command += [*requirement, "--dest", str(into), *more]
        subprocess.run(command, check=True, capture_output=True, text=True)
    return sorted(into.glob("*.whl"))


def blas_packages(implementation: str, number: int, default: bool = False) -> list[Package]:
    """conda-forge's libblas, libcblas and liblapack of one implementation, without files.

    The wheels of NumPy and SciPy carry an OpenBLAS of their own, so nothing is missing.
    """
    build = f"{number}_h0_{implementation}"
    features = None if default else f"blas_{implementation}"
    first = Package("libblas", BLAS_VERSION, build, number, track_features=features)
    first.depends = {"mkl": ["mkl >=2026,<2027"], "openblas": []}[implementation]
    same = [f"libblas {BLAS_VERSION} {build}"]
    return [
        first,
        *(
            Package(name, BLAS_VERSION, build, number, same, track_features=features)
            for name in ("libcblas", "liblapack")
        ),
    ]


def report_pins() -> list[str]:
    """What envs/report.yaml names, as pip's requirements."""
    document = yaml.safe_load((ROOT / "envs/report.yaml").read_text())
    specs = [spec.split() for spec in document["dependencies"]]
    pip_names = {conda: pip for pip, conda in NAMES.items()}
    return [
        f"{pip_names.get(name, name)}=={version.removeprefix('==')}"
        for name, version in specs
        if name != "python"
    ]


def _make(
    root: Path, environments: list[str], pins: list[str], whole_python: bool, work: Path
) -> None:
    channel = Channel(root)
    channel.add(python.abi())
    channel.add(python.copied(work) if whole_python else python.linked())
    for package in blas_packages("openblas", 10, default=True):
        channel.add(package)
    names = set()
    for wheel in downloaded(environments, work / "wheels", pins=pins):
        if wheel.name.startswith(UNUSED):
            continue
        package = _package(wheel)
        names.add(package.name)
        channel.add(package)
    if "mkl" in names:
        for package in blas_packages("mkl", 10):
            channel.add(package)
    if "pytorch" in names:
        version = next(p for p in (work / "wheels").glob("torch-*.whl"))
        torch = parse_wheel_filename(version.name)[1].public
        depends = [f"pytorch {torch} cpu_generic*"]
        channel.add(Package("pytorch-cpu", torch, "cpu_generic_h0_0", depends=depends))
    channel.write()


def _package(wheel: Path) -> Package:
    """A wheel as the package that conda-forge has in its place."""
    name = str(parse_wheel_filename(wheel.name)[0])
    if name == "numpy":
        depends = [f"{part} >=3.9.0,<4.0a0" for part in ("libblas", "libcblas", "liblapack")]
        return converted(wheel, depends=depends, build=f"{TAG}h0_0")
    if name == "torch":
        return converted(wheel, "pytorch", build=f"cpu_generic_{TAG}_h0_0")
    if name == "jaxlib":
        return converted(wheel, build=f"cpu_{TAG}h0_0")
    if name == "mlx":
        depends = ["mlx-metal" if sys.platform == "darwin" else "mlx-cpu"]
        return converted(wheel, depends=depends)
    if name == "scipy-openblas64":
        return _openblas(wheel)
    if name == "mkl":
        parts = MKL_PARTS.fullmatch
        return converted(wheel, depends=["intel-openmp"], wanted=lambda path: bool(parts(path)))
    if name == "intel-openmp":
        return converted(wheel, depends=[], wanted=lambda path: path == "lib/libiomp5.so")
    return converted(wheel)


def _openblas(wheel: Path) -> Package:
    """libopenblas: the wheel's library, where conda-forge's package has its own."""
    inside = f"{python.SITE}/scipy_openblas64/lib/libscipy_openblas64_"
    package = converted(wheel, "libopenblas", [], "pthreads_h0_0", lambda p: p.startswith(inside))
    [(path, content)] = package.files.items()
    suffix = ".so.0" if path.endswith(".so") else ".0.dylib"
    version = ".".join(package.version.split(".")[:3])
    files = {f"lib/libopenblas{suffix}": content}
    return Package("libopenblas", version, package.build, files=files)
