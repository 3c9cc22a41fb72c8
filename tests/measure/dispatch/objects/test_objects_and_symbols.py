"""Reading the process's own memory and files: objects, imports, names of functions."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from pathlib import Path

import numpy as np
import pytest

from gemmgrid.measure.dispatch.objects import elf
from gemmgrid.measure.dispatch.objects.elf import mapped_objects
from gemmgrid.measure.dispatch.objects.symbols import (
    AddressNames,
    SymbolTable,
    shorten,
    symbol_table,
)
from gemmgrid.measure.dispatch.objects.words import read_word
from gemmgrid.measure.libraries.memory_map import MemoryMap

pytestmark = pytest.mark.skipif(
    platform.system() != "Linux" or platform.libc_ver()[0] != "glibc",
    reason="ELF objects of glibc's loader",
)


def numpys_extension() -> elf.LoadedObject:
    return next(o for o in elf.loaded_objects() if "_multiarray_umath" in o.path)


def test_the_program_and_its_libraries_are_found() -> None:
    objects = elf.loaded_objects()
    assert objects[0].main
    assert objects[0].path == os.path.realpath("/proc/self/exe")
    assert any("libc.so" in o.path for o in objects)
    assert len({o.base for o in objects}) == len(objects)


def test_the_memory_map_alone_gives_the_same_places() -> None:
    mapped = {o.path: o.base for o in mapped_objects()}
    for loaded in elf.loaded_objects():
        assert mapped[os.path.realpath(loaded.path)] == loaded.base


def test_the_words_of_imports_hold_addresses_of_code() -> None:
    np.ones((2, 2)) @ np.ones((2, 2))
    extension = numpys_extension()
    imports = {one.symbol: one for one in elf.imports(extension, lambda name: "cblas_" in name)}
    assert any("sgemm" in symbol for symbol in imports)
    memory = MemoryMap()
    for one in imports.values():
        region = memory.at(read_word(one.address))
        assert region
        assert region.protection & 4, one.symbol


def test_a_lazily_bound_word_is_bound_by_its_first_call() -> None:
    gemm = next(
        one
        for one in elf.imports(numpys_extension(), lambda name: "cblas_dgemm" in name)
        if one.own is None
    )
    np.ones((64, 64)) @ np.ones((64, 64)).copy()
    target = read_word(gemm.address)
    library = next(o for o in elf.loaded_objects() if o.contains(target))
    assert "openblas" in library.name
    name = symbol_table(library.path).function_at(target - library.base)
    assert name == gemm.symbol


def test_functions_are_named_at_and_around_their_address() -> None:
    library = next(o for o in elf.loaded_objects() if "libscipy_openblas64_" in o.path)
    table = symbol_table(library.path)
    start = ctypes.CDLL(library.path)["scipy_cblas_sgemm64_"]
    address = ctypes.cast(start, ctypes.c_void_p).value or 0
    names = AddressNames(elf.loaded_objects())
    for inside in (address, address + 1, address + 16):
        found, function = names.function(inside)
        assert found
        assert found.path == library.path
        assert function == "scipy_cblas_sgemm64_"
    assert table.function_at(address - library.base + 1) is None
    assert names.function(0x10) == (None, None)


def test_a_file_without_sections_has_no_symbols(tmp_path: Path) -> None:
    library = next(o for o in elf.loaded_objects() if "libscipy_openblas64_" in o.path)
    data = bytearray(Path(library.path).read_bytes())
    struct.pack_into("<H", data, 60, 0)
    bare = tmp_path / "bare.so"
    bare.write_bytes(data)
    table = SymbolTable(str(bare))
    assert table.stripped
    assert table.find("gotoblas") is None
    assert table.function_around(0x10000) is None
    assert table.function_at(0x10000) is None


@pytest.mark.parametrize("content", [b"#!/bin/sh\n", b"\x7fELF\x02" + bytes(90), b"\x7fELF"])
def test_files_of_other_kinds_have_none_either(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "other"
    file.write_bytes(content)
    assert SymbolTable(str(file)).stripped


@pytest.mark.parametrize(
    ("full", "short"),
    [
        (
            "void mlx::core::simd_gemm<mlx::core::_MLX_Float16, float>(mlx::core::_MLX_Float16 "
            "const*, int)",
            "mlx::core::simd_gemm",
        ),
        (
            "Eigen::internal::gebp_kernel<int, int, long, Eigen::internal::blas_data_mapper<int, "
            "long, 0, 0, 1>, 16, 4, false, false>::operator()(int) const",
            "Eigen::internal::gebp_kernel::operator",
        ),
        (
            "at::native::cpublas::(anonymous namespace)::cpublas_gemm_impl(c10::ScalarType)::"
            "{lambda()#1}::operator()() const",
            "at::native::cpublas::cpublas_gemm_impl",
        ),
        ("ynn::dot_fp32_5x64x1_1x16x1_avx512(unsigned long)", "ynn::dot_fp32_5x64x1_1x16x1_avx512"),
    ],
)
def test_names_of_cpp_are_shortened(full: str, short: str) -> None:
    assert shorten(full) == short
