"""Which BLAS serves: asked of real libraries in real environments, and of small test doubles."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gemmgrid.measure import libraries
from gemmgrid.measure.libraries import linker, promised
from gemmgrid.measure.libraries.find import find
from tests.measure.interpreters import FOLDER, interpreter, run, variables

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="what the wheels carry differs")

ASK = """
import importlib, json, sys
from gemmgrid.measure import libraries
module = importlib.import_module(sys.argv[1])
blas = libraries.serving(module.__file__, json.loads(sys.argv[2]))
print(json.dumps({
    "serving": blas and libraries.describe(blas),
    "mapped": [one.to_json() for one in libraries.mapped()],
    "affixes": blas and blas.affixes,
}))
"""


def ask(environment: str, module: str, kind: str, **more: str) -> dict[str, Any]:
    symbols = json.dumps({"c": libraries.CBLAS_SYMBOLS, "fortran": libraries.FORTRAN_SYMBOLS}[kind])
    return json.loads(run(environment, "-c", ASK, module, symbols, **more))


@linux_only
def test_numpys_wheel_is_served_by_the_openblas_that_it_carries() -> None:
    answer = ask("numpy-openblas", "numpy._core._multiarray_umath", "c")
    library = answer["serving"]
    assert library["family"] == "openblas"
    assert library["interface"] == "ilp64"
    assert library["threading"] == "pthreads"
    assert library["core"]
    assert "numpy.libs" in library["file"]
    assert library["others"] == []
    assert answer["affixes"] == ["scipy_", "64_"]


@linux_only
def test_scipys_wheel_is_served_by_another_openblas_than_numpys() -> None:
    answer = ask("scipy-openblas", "scipy.linalg._fblas", "fortran")
    library = answer["serving"]
    assert "scipy.libs" in library["file"]
    assert library["interface"] == "lp64"
    assert [Path(other["file"]).parent.name for other in library["others"]] == ["numpy.libs"]
    assert len(answer["mapped"]) == 2


@linux_only
def test_mlxs_wheel_is_served_by_the_reference_blas() -> None:
    library = ask("mlx-cpu", "mlx.core", "c")["serving"]
    assert library["family"] == "netlib"
    assert library["version"].count(".") == 2, "from the name of its file"
    assert library["threading"] == "none"


@linux_only
def test_a_chosen_core_shows() -> None:
    """Control: what the environment variable changes is what is reported."""
    chosen = {"OPENBLAS_CORETYPE": "Nehalem"}
    if os.uname().machine != "x86_64":
        pytest.skip("hardware: the core's name is one of x86-64")
    answer = ask("numpy-openblas", "numpy._core._multiarray_umath", "c", **chosen)
    assert answer["serving"]["core"] == "Nehalem"


@linux_only
def test_threads_are_set_and_told_by_the_library_itself() -> None:
    program = """
import numpy
from gemmgrid.measure import libraries
[blas] = libraries.mapped()
before = blas.threads()
print(before, blas.set_threads(1), blas.threads(), blas.set_threads(2), blas.threads())
"""
    said = run("numpy-openblas", "-c", program, OPENBLAS_NUM_THREADS="2")
    assert said.split() == ["2", "True", "1", "True", "2"]


@linux_only
def test_mkl_is_one_library_and_tells_its_kernels_once_it_has_them() -> None:
    program = """
import json
from gemmgrid.measure import adapters
from gemmgrid.measure.invocation import operands
from gemmgrid.records.cell import Cell
adapter = adapters.load("cblas")("cpu", {"library": "mkl"})
before = adapter.identify()["library"]
cell = Cell("gemm", "float32", (64, 64, 64), 1)
call = adapter.prepare(cell, operands.make(cell, 1))
exec(call.statement, call.names)
print(json.dumps([before, adapter.identify()["library"]]))
"""
    before, after = json.loads(run("cblas-mkl", "-c", program))
    assert before["core"] is None
    assert "at the first product" in before["unknown"]["core"]
    assert after["core"] in ("def", "mc3", "avx2", "avx512", "avx10")
    assert after["threading"] == "openmp (intel)"
    assert after["interface"] == "lp64"
    assert [other["name"] for other in after["others"]] == ["OpenBLAS"]


@linux_only
@pytest.mark.parametrize(
    ("layer", "expected"), [("ILP64", "ilp64"), ("GNU,LP64", "lp64"), ("lp64", "lp64")]
)
def test_mkls_interface_follows_its_variable_and_counts_right(layer: str, expected: str) -> None:
    """With integers of another width MKL would see other sizes, and the product would be wrong."""
    program = """
import numpy as np
from gemmgrid.measure import adapters
from gemmgrid.measure.invocation import operands
from gemmgrid.records.cell import Cell
adapter = adapters.load("cblas")("cpu", {"library": "mkl"})
cell = Cell("gemm", "float64", (30, 20, 10), 1)
given = operands.make(cell, 1)
call = adapter.prepare(cell, given)
call.poison()
exec(call.statement, call.names)
assert np.allclose(call.result(call.names), given.A @ given.B)
print(adapter.identify()["library"]["interface"])
"""
    assert run("cblas-mkl", "-c", program, MKL_INTERFACE_LAYER=layer).strip() == expected


def served(name: str | None, **facts: str) -> dict[str, str | None]:
    return {"name": name, "family": None, "version": None, "file": None, **facts}


def test_a_kept_promise_is_no_problem() -> None:
    assert promised("openblas", served("OpenBLAS", family="openblas")) is None
    assert promised(None, served("MKL", family="mkl")) is None
    assert promised(None, None) is None


def test_a_broken_promise_names_both_libraries_the_file_and_the_cure() -> None:
    other = served("OpenBLAS", family="openblas", version="0.3.31", file="/e/libopenblas.so")
    problem = promised("mkl", other)
    assert problem is not None
    for word in ("blas: mkl", "OpenBLAS 0.3.31", "/e/libopenblas.so", "config/backends.yaml"):
        assert word in problem


@pytest.mark.parametrize("library", [None, {}, served("XLA (YNNPACK, Eigen)")])
def test_a_promise_is_broken_where_no_known_blas_serves(library: dict[str, Any] | None) -> None:
    assert "no BLAS library that is known" in (promised("mkl", library) or "")


def test_an_unknown_family_is_refused_with_those_that_exist() -> None:
    with pytest.raises(ValueError, match="'mlk' is none of openblas, mkl, blis, netlib"):
        find("mlk")


def test_a_library_is_found_where_conda_puts_it(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/libmkl_rt.so.2").touch()
    assert find("mkl", str(tmp_path)) == str(tmp_path / "lib/libmkl_rt.so.2")
    with pytest.raises(FileNotFoundError, match=r"no blis library in this environment"):
        find("blis", str(tmp_path))


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS has it")
def test_accelerate_is_a_part_of_macos() -> None:
    with pytest.raises(FileNotFoundError, match="part of macOS"):
        find("accelerate")


@linux_only
def test_the_linker_tells_what_is_mapped_and_what_it_exports() -> None:
    import numpy._core._multiarray_umath as extension

    assert extension.__file__ is not None
    file = os.path.realpath(extension.__file__)
    assert file in linker.mapped_files()
    assert linker.opened("/nowhere/libnone.so") is None
    handle = linker.opened(file)
    assert handle is not None
    symbol = linker.exported(handle, "PyInit__multiarray_umath")
    assert symbol is not None
    assert symbol.file == file
    assert linker.exported(handle, "no_such_function") is None


@pytest.fixture
def compiled(tmp_path: Path) -> Any:
    """A function that makes a shared library from C source."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler here to make test doubles of libraries with")

    def compile_library(name: str, source: str, *flags: str) -> Path:
        (tmp_path / "double.c").write_text(source)
        output = tmp_path / name
        command = [compiler, "-shared", "-fPIC", "-o", output, tmp_path / "double.c", *flags]
        subprocess.run([str(part) for part in command], check=True, capture_output=True)
        return output

    return compile_library


RECOGNISE = """
import ctypes, json, sys
from gemmgrid.measure import libraries
for path in sys.argv[1:]:
    ctypes.CDLL(path)
print(json.dumps([{**blas.to_json(), "threads": blas.threads()} for blas in libraries.mapped()]))
"""


def recognised(*paths: Path) -> list[dict[str, Any]]:
    arguments = [sys.executable, "-s", "-c", RECOGNISE, *map(str, paths)]
    done = subprocess.run(arguments, env=variables(), check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


@linux_only
def test_a_library_that_hides_its_functions_is_known_by_its_text(compiled: Any) -> None:
    """As Debian's libblas.so.3 of BLIS: the standard's names, extensions, and nothing else."""
    double = compiled(
        "libblas.so.3",
        'const char *text = "libblis: Aborting."; void sgemm_(void) {} void caxpby_(void) {}',
    )
    [found] = recognised(double)
    assert found["family"] == "blis"
    assert found["version"] is None
    assert "exports no function" in found["unknown"]["version"]
    assert found["threads"] is None


@linux_only
def test_a_front_is_known_by_the_library_behind_it(compiled: Any, tmp_path: Path) -> None:
    """As Debian's libblas.so.3 of OpenBLAS: gemm in front, the rest in libopenblas.so.0."""
    back = compiled(
        "libopenblas.so.0",
        'char *openblas_get_config(void) { return "OpenBLAS 0.3.21 DYNAMIC_ARCH Zen"; }'
        "int openblas_get_num_threads(void) { return 7; } void sgemm_(void) {}",
        "-Wl,-soname,libopenblas.so.0",
    )
    front = compiled(
        "libblas.so.3",
        "void sgemm_(void) {} void caxpby_(void) {}",
        "-Wl,--no-as-needed",
        str(back),
        f"-Wl,-rpath,{tmp_path}",
    )
    found = {Path(blas["file"]).name: blas for blas in recognised(front)}
    assert set(found) == {"libblas.so.3", "libopenblas.so.0"}
    assert found["libblas.so.3"]["family"] == "openblas"
    assert found["libblas.so.3"]["version"] == "0.3.21"
    assert found["libblas.so.3"]["threads"] == 7


@linux_only
def test_the_reference_is_what_has_no_extension(compiled: Any) -> None:
    plain = compiled("libblas.so.3.12.0", "void sgemm_(void) {}")
    [found] = recognised(plain)
    assert (found["family"], found["version"]) == ("netlib", "3.12.0")


@linux_only
def test_a_library_without_gemm_is_no_blas(compiled: Any) -> None:
    assert recognised(compiled("libblas.so.3", "void saxpy_(void) {}")) == []


@linux_only
def test_a_preloaded_library_is_the_one_that_serves(compiled: Any) -> None:
    """The linker looks into the global scope first, and so does `serving`."""
    double = compiled(
        "libspy.so",
        "void scipy_cblas_sgemm64_(void) {} void cblas_sgemm(void) {} void sgemm_(void) {}",
    )
    answer = ask("numpy-openblas", "numpy._core._multiarray_umath", "c", LD_PRELOAD=str(double))
    assert answer["serving"]["file"] == str(double.resolve())
    assert [Path(one["file"]).parent.name for one in answer["serving"]["others"]] == ["numpy.libs"]


@linux_only
def test_macos_binds_a_symbol_to_the_library_that_it_was_linked_with(compiled: Any) -> None:
    """Mach-O's rule, asked of ELF files: what stands in the global scope does not serve."""
    double = compiled("libspy.so", "void scipy_cblas_sgemm64_(void) {}")
    program = """
import json
import numpy._core._multiarray_umath as extension
from gemmgrid.measure.libraries import CBLAS_SYMBOLS, linker
bound = [linker.provider(extension.__file__, CBLAS_SYMBOLS, one) for one in ("linux", "darwin")]
print(json.dumps([symbol.file for symbol in bound]))
"""
    elf, macho = json.loads(run("numpy-openblas", "-c", program, LD_PRELOAD=str(double)))
    assert elf == str(double.resolve())
    assert "numpy.libs" in macho


@linux_only
def test_a_plain_library_is_called_by_its_path(tmp_path: Path) -> None:
    """`options: {path: …}`: the same OpenBLAS by its path, without the family's name."""
    interpreter("cblas-openblas")
    folder = FOLDER / "cblas-openblas"
    [file] = folder.glob("lib/python3*/site-packages/scipy_openblas64/lib/libscipy_openblas64_.so")
    link = tmp_path / "libmine.so"
    link.symlink_to(file)
    program = """
import sys
import numpy as np
from gemmgrid.measure import adapters
from gemmgrid.measure.invocation import operands
from gemmgrid.records.cell import Cell
adapter = adapters.load("cblas")("cpu", {"path": sys.argv[1]})
cell = Cell("gemm", "float64", (30, 20, 10), 1)
given = operands.make(cell, 1)
call = adapter.prepare(cell, given)
exec(call.statement, call.names)
assert np.allclose(call.result(call.names), given.A @ given.B)
library = adapter.identify()["library"]
print(library["family"], library["interface"])
"""
    assert run("cblas-openblas", "-c", program, str(link)).split() == ["openblas", "ilp64"]


@linux_only
def test_a_library_without_cblas_is_refused(compiled: Any) -> None:
    double = compiled("libnothing.so", "void sgemm_(void) {}")
    program = """
import sys
from gemmgrid.measure import adapters
try:
    adapters.load("cblas")("cpu", {"path": sys.argv[1]})
except OSError as error:
    print(error)
"""
    said = run("cblas-openblas", "-c", program, str(double))
    assert "libnothing.so exports no cblas_sgemm" in said
