"""Packages' metadata shaped like conda-forge's recipes, on which env files are solved.

Written by hand from the feedstocks' recipes (blas, numpy, scipy, openblas, blis, pytorch-cpu,
jaxlib, mlx, cuda-version) as they were in 2026: names, build strings, build numbers, dependencies,
constraints and features. A solve on it catches a wrong build string, a version that contradicts
another, or a platform without a build. It does not show that the real channel has a package.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.conda.channel.package import write_repodata

X86, ARM, MAC = "linux-64", "linux-aarch64", "osx-arm64"
ALL = (X86, ARM, MAC)
LINUX = (X86, ARM)
BLAS = [f"{part} >=3.9.0,<4.0a0" for part in ("libblas", "libcblas", "liblapack")]
PYTHONS = {"3.11.15": "cp311", "3.12.12": "cp312"}


class Recipes:
    """Collects records for each platform; `write` makes the folders' repodata."""

    def __init__(self) -> None:
        self._records: dict[str, dict[str, dict[str, Any]]] = {one: {} for one in (*ALL, "noarch")}

    def add(
        self,
        subdirs: Iterable[str],
        name: str,
        version: str,
        build: str,
        depends: Iterable[str] = (),
        constrains: Iterable[str] = (),
        features: str | None = None,
        number: int = 0,
    ) -> None:
        for subdir in subdirs:
            record: dict[str, Any] = {
                "name": name,
                "version": version,
                "build": build,
                "build_number": number,
                "depends": list(depends),
                "constrains": list(constrains),
                "subdir": subdir,
                "md5": "0" * 32,
                "sha256": "0" * 64,
                "size": 1,
                "timestamp": 1_700_000_000_000,
            }
            if subdir == "noarch":
                record["noarch"] = "python"
            if features:
                record["track_features"] = features
            self._records[subdir][f"{name}-{version}-{build}.conda"] = record

    def write(self, root: Path) -> None:
        for subdir, records in self._records.items():
            write_repodata(root, subdir, records)


def conda_forge() -> Recipes:
    """Everything that the env files name, and the builds among which they must choose."""
    recipes = Recipes()
    for version, tag in PYTHONS.items():
        _python(recipes, version, tag)
    _blas(recipes)
    add = recipes.add
    add(["noarch"], "nomkl", "1.0", "h5ca1d4c_0", constrains=["mkl <0.a0"])
    for version in ("12.8", "12.9", "13.0", "13.2"):
        needed = [f"__cuda >={version.split('.')[0]}"]
        add(["noarch"], "cuda-version", version, "h0_3", constrains=needed)
    jax = ["python >=3.11", "numpy >=2.0", "scipy >=1.14", "jaxlib >=0.10.1,<=0.10.1"]
    add(["noarch"], "jax", "0.10.1", "pyhd8ed1ab_0", depends=jax)
    _report(recipes)
    return recipes


def _python(recipes: Recipes, version: str, tag: str) -> None:
    """A Python and the packages that are built for each."""
    series = version.rpartition(".")[0]
    py = tag.replace("cp", "py")
    base = ["python", f"python_abi {series}.*"]
    add = recipes.add
    add(ALL, "python", version, "h0_0_cpython", depends=[f"python_abi {series}.*"])
    add(["noarch"], "python_abi", series, f"8_{tag}", constrains=[f"python {series}.* *_cpython"])
    for numpy in ("2.4.6",) if series == "3.11" else ("2.4.6", "2.5.1"):
        add(ALL, "numpy", numpy, f"{py}h0_0", depends=[*base, *BLAS])
    scipy = "1.17.1" if series == "3.11" else "1.18.0"
    add(ALL, "scipy", scipy, f"{py}h0_0", depends=[*base, "numpy >=1.25,<3", *BLAS])
    add([MAC], "mlx", "0.32.0", f"{py}h0_0", depends=[*base, "__osx >=14.5"])
    add(LINUX, "mlx", "0.32.0", f"{py}h0_0", depends=[*base, *BLAS])
    jaxlib = [*base, "scipy >=1.9"]
    add(ALL, "jaxlib", "0.10.1", f"cpu_{py}h0_0", depends=jaxlib)
    cuda = [*jaxlib, "__cuda", "cuda-version >=12.9,<13"]
    add(LINUX, "jaxlib", "0.10.1", f"cuda129_{py}h0_200", depends=cuda, number=200)
    _torch(recipes, base, py)
    for name, its in (("pandas", "3.0.3"), ("pandas", "3.1.0"), ("pyarrow", "24.0.0")):
        add(ALL, name, its, f"{py}h0_0", depends=[*base, "numpy >=1.25,<3"])
    add(ALL, "pyyaml", "6.0.3", f"{py}h0_1", depends=base)
    add(ALL, "matplotlib-base", "3.10.8", f"{py}h0_0", depends=[*base, "numpy >=1.25,<3"])


def _torch(recipes: Recipes, base: list[str], py: str) -> None:
    builds: list[tuple[Iterable[str], str, str, int, str | None]] = [
        ([X86], "cpu", "mkl", 102, None),
        (ALL, "cpu", "generic", 2, None),
    ]
    for name, version in (("cuda129", "12.9"), ("cuda130", "13.0")):
        builds += [([X86], name, "mkl", 302, version), (LINUX, name, "generic", 202, version)]
    for subdirs, kind, blas, number, cuda in builds:
        needs = ["libblas * *mkl"] if blas == "mkl" else [*BLAS[1:], "nomkl"]
        if cuda:
            needs += ["__cuda", f"cuda-version >={cuda},<{int(cuda[:2]) + 1}"]
        mine, other = ("gpu", "cpu") if cuda else ("cpu", "gpu")
        constrains = [f"pytorch-{mine} 2.13.0", f"pytorch-{other} <0.0a0"]
        if blas != "mkl":
            constrains.append("libopenblas * openmp_*")
        build = f"{kind}_{blas}_{py}_h0_{number}"
        recipes.add(subdirs, "pytorch", "2.13.0", build, [*base, *needs], constrains, number=number)
        recipes.add(
            subdirs,
            f"pytorch-{mine}",
            "2.13.0",
            f"{kind}_{blas}_h{py}_{number}",
            [f"pytorch 2.13.0 {'cuda' if cuda else 'cpu'}*_{blas}*{number}"],
            number=number,
        )


def _blas(recipes: Recipes) -> None:
    """libblas, libcblas and liblapack for each implementation, and the libraries under them.

    https://github.com/conda-forge/blas-feedstock: features weigh every variant but OpenBLAS down,
    so that a solver takes it only where it is asked for.
    """
    add = recipes.add
    for threads in ("pthreads", "openmp"):
        other = threads == "openmp"
        for name, version in (("libopenblas", "0.3.34"), ("blis", "2.1")):
            feature = f"{name}_threading_openmp" if other else None
            add(ALL, name, version, f"{threads}_h0_0", features=feature)
    add([X86], "mkl", "2026.1.0", "h0_0")
    _variant(recipes, ALL, "openblas", ["libopenblas >=0.3.33,<1.0a0"])
    _variant(recipes, [X86], "mkl", ["mkl >=2026,<2027"])
    _variant(recipes, ALL, "blis", ["blis >=2.0,<2.2.0a0"])
    _variant(recipes, [MAC], "accelerate", [])
    _variant(recipes, [MAC], "newaccelerate", ["__osx >=15.5"])
    for name in ("libblas", "libcblas", "liblapack"):
        needs = [] if name == "libblas" else ["libblas 3.11.0"]
        features = "blas_netlib blas_netlib_2"
        add(ALL, name, "3.11.0", "7_h0_netlib", needs, features=features, number=7)


def _variant(recipes: Recipes, subdirs: Iterable[str], name: str, depends: list[str]) -> None:
    build, default = f"10_h0_{name}", name == "openblas"
    parts = ["libcblas"] if name == "blis" else ["libcblas", "liblapack"]
    constrains = [f"{part} 3.11.0 10*_{name}" for part in parts]
    constrains += [] if name == "mkl" else ["mkl <2027"]
    one, two = (None, None) if default else (f"blas_{name}", f"blas_{name} blas_{name}_2")
    recipes.add(subdirs, "libblas", "3.11.0", build, depends, constrains, two, 10)
    for part in parts:
        needs = [f"libblas 3.11.0 {build}"]
        recipes.add(subdirs, part, "3.11.0", build, needs, features=one, number=10)


def _report(recipes: Recipes) -> None:
    seaborn = ["python >=3.10", "numpy >=1.24", "pandas >=1.2", "matplotlib-base >=3.4"]
    recipes.add(["noarch"], "seaborn-base", "0.13.2", "pyhd8ed1ab_3", depends=seaborn)
    recipes.add(["noarch"], "jsonschema", "4.26.0", "pyhcf101f3_0", depends=["python >=3.10"])
    recipes.add(["noarch"], "jinja2", "3.1.6", "pyhcf101f3_1", depends=["python >=3.10"])
