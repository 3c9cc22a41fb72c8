"""Each adapter in its own environment: right numbers, kept promises, a true identity."""

from __future__ import annotations

import json
import platform
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gemmgrid.records.cell import DTYPES, Cell
from tests.measure.interpreters import FOLDER, ROOT, interpreter, run

CONFORMANCE = str(Path(__file__).with_name("conformance.py"))
LINUX = sys.platform == "linux"
BLAS_DTYPES = {"float32", "float64", "complex64", "complex128"}

COLUMN_MAJOR = {
    *(".colmajor", ".nt.colmajor", ".tn.colmajor", ".cc.colmajor", ".tc.colmajor"),
    *(".b3.colmajor", ".colmajor.ld5", ".colmajor.alloc", ".colmajor.alpha-0.5.beta2"),
}
PADDED = {".ld5", ".colmajor.ld5", ".b3.ld5"}
STACKED = {".b3", ".tn.b3", ".nc.b3", ".b3.ld5", ".b3.colmajor", ".b3.alpha2.beta1"}
SCALED = {
    *(".alpha2", ".beta1", ".tn.alpha-0.5.beta2", ".colmajor.alpha-0.5.beta2"),
    *(".b3.alpha2.beta1", ".alpha2.alloc", ".beta1.cold"),
}
CALLS = {".matmul", ".dot", ".operator", ".out", ".einsum", ".tn.operator", ".b3.einsum"}
ALLOCATED = {".alloc", ".ct.alloc", ".colmajor.alloc", ".alpha2.alloc", ".alloc.cold"}


@dataclass(frozen=True)
class Case:
    """An adapter in an environment, and what is expected of it there."""

    environment: str
    adapter: str
    options: str
    family: str
    packages: tuple[str, ...]
    dtypes: frozenset[str]
    """In which it multiplies two plain matrices."""
    refused: frozenset[str]
    """Options of a float32 gemm that it refuses."""
    sets_threads: bool = True

    def __str__(self) -> str:
        return self.environment


def case(environment: str, options: str = "{}", **expected: Any) -> Case:
    for name in ("dtypes", "refused"):
        expected[name] = frozenset(expected[name])
    return Case(environment, environment.split("-", maxsplit=1)[0], options, **expected)


CASES = [
    case(
        "numpy-openblas",
        family="openblas" if LINUX else "accelerate",
        packages=("numpy",),
        dtypes=set(DTYPES) - {"bfloat16"},
        refused=SCALED | {".direct", ".compiled", ".lazy"},
        sets_threads=LINUX,
    ),
    case(
        "scipy-openblas",
        family="openblas" if LINUX else "accelerate",
        packages=("numpy", "scipy"),
        dtypes=BLAS_DTYPES,
        refused=STACKED | PADDED | CALLS | {".compiled", ".lazy"},
        sets_threads=LINUX,
    ),
    case(
        "cblas-openblas",
        '{"library": "openblas"}',
        family="openblas",
        packages=("numpy", "scipy-openblas64"),
        dtypes=BLAS_DTYPES,
        refused=STACKED | ALLOCATED | CALLS | {".compiled", ".lazy"},
    ),
    case(
        "cblas-mkl",
        '{"library": "mkl"}',
        family="mkl",
        packages=("numpy", "mkl"),
        dtypes=BLAS_DTYPES | {"float16"},
        refused=STACKED | ALLOCATED | CALLS | {".compiled", ".lazy"},
    ),
    case(
        "torch-cpu",
        family=("mkl" if platform.machine() == "x86_64" else "openblas") if LINUX else "accelerate",
        packages=("numpy", "torch"),
        dtypes=DTYPES,
        refused={".direct", ".dot", ".lazy"},
    ),
    case(
        "mlx-cpu",
        family="netlib" if LINUX else "accelerate",
        packages=("numpy", "mlx"),
        dtypes=set(DTYPES) - {"complex128"},
        refused=COLUMN_MAJOR
        | PADDED
        | ALLOCATED
        | {".unaligned", ".dot", ".out", ".direct", ".eager"},
        sets_threads=False,
    ),
    case(
        "jax-cpu",
        family="xla",
        packages=("numpy", "jax", "jaxlib"),
        dtypes=DTYPES,
        refused=COLUMN_MAJOR | PADDED | ALLOCATED | {".unaligned", ".out", ".direct", ".lazy"},
        sets_threads=False,
    ),
]


@cache
def report(case: Case) -> dict[str, Any]:
    """What conformance.py found, in one process for all tests of a case."""
    shapes = "few" if case.adapter == "jax" else "many"  # JAX compiles every one
    said = run(case.environment, CONFORMANCE, case.adapter, "cpu", case.options, shapes)
    return json.loads(said)


def found(case: Case) -> list[tuple[Cell, dict[str, Any]]]:
    return [(Cell.parse(entry["cell"]), entry) for entry in report(case)["cells"]]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_cell_is_right_or_refused_for_a_reason(case: Case) -> None:
    wrong = [entry for _, entry in found(case) if entry["problems"]]
    assert not wrong, json.dumps(wrong[:5], indent=1)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_has_the_dtypes_of_its_library(case: Case) -> None:
    plain = [
        (cell.dtype, entry["unsupported"])
        for cell, entry in found(case)
        if cell.routine == "gemm" and not cell.options.to_json()
    ]
    assert {dtype for dtype, reason in plain if reason is None} == case.dtypes
    assert {dtype for dtype, reason in plain if reason} == set(DTYPES) - case.dtypes


@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_refuses_only_the_options_that_its_library_lacks(case: Case) -> None:
    refused = {
        cell.options.suffix
        for cell, entry in found(case)
        if (cell.routine, cell.dtype) == ("gemm", "float32") and entry["unsupported"]
    }
    assert refused == case.refused


@pytest.mark.parametrize("case", CASES, ids=str)
def test_dot_and_gemv_are_there_in_every_blas_dtype(case: Case) -> None:
    plain = {
        (cell.routine, cell.dtype)
        for cell, entry in found(case)
        if not cell.options.to_json() and entry["unsupported"] is None
    }
    dtypes = BLAS_DTYPES & case.dtypes
    assert {(routine, dtype) for routine in ("dot", "gemv") for dtype in dtypes} <= plain


@pytest.mark.parametrize("case", CASES, ids=str)
def test_only_complex_conjugation_is_ever_refused_for_the_dtype(case: Case) -> None:
    """What float32 gemm can do, complex64 gemm can too, but for conjugates."""
    by_dtype: dict[str, dict[str, str | None]] = {"float32": {}, "complex64": {}}
    for cell, entry in found(case):
        if cell.routine == "gemm" and cell.dtype in by_dtype:
            by_dtype[cell.dtype][cell.options.suffix] = entry["unsupported"]
    for options, reason in by_dtype["complex64"].items():
        if reason and by_dtype["float32"][options] is None:
            assert "c" in options.split(".")[1], f"{options}: {reason}"
            assert "conjug" in reason


@pytest.mark.parametrize("case", CASES, ids=str)
def test_identity_names_the_packages_that_the_environment_pins(case: Case) -> None:
    pins = {}
    for line in (ROOT / "envs" / f"{case.environment}.txt").read_text().splitlines():
        name, _, version = line.partition("==")
        pins[name.split("[")[0]] = version
    packages = report(case)["identity"]["packages"]
    # A build of torch without CUDA calls itself 2.13.0+cpu.
    assert {name: packages[name].split("+")[0] for name in case.packages} == {
        name: pins[name] for name in case.packages
    }


@pytest.mark.parametrize("case", CASES, ids=str)
def test_identity_names_the_library_as_loaded(case: Case) -> None:
    library = report(case)["identity"]["library"]
    assert library["family"] == case.family
    assert library["version"]
    for key in ("version", "core", "threading", "interface", "file"):
        assert library[key] or library["unknown"][key], f"{key} is neither known nor explained"
    if LINUX:
        file = Path(library["file"])
        assert file.is_file()
        assert file.resolve().is_relative_to((FOLDER / case.environment).resolve())


@pytest.mark.skipif(not LINUX, reason="which libraries the wheels carry differs there")
@pytest.mark.parametrize("environment", ["scipy-openblas", "torch-cpu", "mlx-cpu", "cblas-mkl"])
def test_numpys_own_blas_is_named_beside_the_one_that_serves(environment: str) -> None:
    case = next(case for case in CASES if case.environment == environment)
    others = report(case)["identity"]["library"]["others"]
    assert any("numpy.libs" in other["file"] and other["name"] == "OpenBLAS" for other in others)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_threads_are_what_was_asked_for(case: Case) -> None:
    threads = report(case)["threads"]
    if case.sets_threads:
        assert threads == {"1": 1, "2": 2}
    elif case.family == "netlib":
        assert threads == {"1": 1, "2": 1}, "the reference BLAS knows one thread only"
    else:
        assert threads["1"] in (None, 1)


@pytest.mark.skipif(not LINUX, reason="reads /proc")
def test_jax_computes_with_the_threads_that_were_asked_for() -> None:
    """XLA takes its pool from NPROC, which the adapter sets before the pool exists."""
    program = """
import os, time
from gemmgrid.measure import adapters
from gemmgrid.measure.invocation import operands
from gemmgrid.records.cell import Cell
adapter = adapters.load("jax")("cpu", {})
adapter.set_threads(1)
cell = Cell("gemm", "float32", (700, 700, 700), 1)
call = adapter.prepare(cell, operands.make(cell, 1))
exec(call.statement, call.names)
def ticks():
    used = {}
    for task in os.listdir("/proc/self/task"):
        fields = open(f"/proc/self/task/{task}/stat").read().rsplit(")", 1)[1].split()
        used[task] = int(fields[11]) + int(fields[12])
    return used
before = ticks()
end = time.perf_counter() + 1.0
while time.perf_counter() < end:
    exec(call.statement, call.names)
spent = {task: count - before.get(task, 0) for task, count in ticks().items()}
# Threads that share a product burn about the same; the main thread, which waits, burns less.
print(sum(count > 0.5 * max(spent.values()) for count in spent.values()))
"""
    assert int(run("jax-cpu", "-c", program)) == 1


def test_the_environments_interpreter_is_the_one_that_was_meant() -> None:
    python = interpreter("numpy-openblas")
    prefix = run("numpy-openblas", "-c", "import sys; print(sys.prefix)").strip()
    assert Path(prefix).resolve() == python.parents[1].resolve()
