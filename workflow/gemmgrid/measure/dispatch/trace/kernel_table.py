"""Which kernels of OpenBLAS did the work: counts calls through its table of kernels.

An OpenBLAS built for many processors (DYNAMIC_ARCH, as in every wheel) chooses one table of
kernels, `gotoblas_SKYLAKEX` say, when it is loaded, and calls every kernel through it
(common_param.h in its source). Switching the functions in that table to counting stubs gives exact
counts.
"""

from __future__ import annotations

import ctypes
import os.path
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmgrid.measure.dispatch.objects.elf import LoadedObject, loaded_objects
from gemmgrid.measure.dispatch.objects.refusals import NoSymbolsError, require_platform
from gemmgrid.measure.dispatch.objects.symbols import SymbolTable, symbol_table
from gemmgrid.measure.dispatch.objects.words import read_word
from gemmgrid.measure.dispatch.trace.patch import Switch, idle
from gemmgrid.measure.dispatch.trace.stubs import Wanted, stub_memory
from gemmgrid.measure.libraries.blas import Blas
from gemmgrid.measure.libraries.families import OpenBlas
from gemmgrid.measure.libraries.linker import exported, opened
from gemmgrid.measure.libraries.names import is_blas_file

_HELPER = re.compile(r"copy|beta|permit|neg_|scal_k|amax|amin|swap_k|nrm2")
"""Kernels that prepare or finish the work of others: packing, scaling by beta, choosing."""
_WEIGHT = ("gemm_kernel", "gemm_direct", "gemm3m_kernel", "small_kernel", "gemv", "symv", "hemv")
"""Which kernels to name first; otherwise the most called."""


@dataclass
class KernelCount:
    """Calls of one kernel of one library."""

    name: str
    core: str
    library: str
    count: int


class TableTrace:
    """Counts the kernels of one loaded OpenBLAS. Raises NoSymbolsError where it cannot be read."""

    def __init__(self, library: LoadedObject, blas: Blas) -> None:
        require_platform()
        self.library = library
        table = symbol_table(self.library.path)
        self.table_name, start, size = _live_table(self.library, table, blas)
        self.core = blas.core() or self.table_name.removeprefix("gotoblas_")
        with idle():
            named = _table_functions(self.library, table, start, size)
        self._memory = stub_memory()
        keys = {address: ("kernel", target) for address, (target, _) in named.items()}
        stubs = self._memory.get(Wanted(keys[a], target) for a, (target, _) in named.items())
        self._counters: dict[str, set[int]] = {}
        for address, (_, name) in named.items():
            self._counters.setdefault(name, set()).add(stubs[keys[address]].number)
        self.switches = [Switch(a, stubs[key].address, library) for a, key in keys.items()]
        self._start: dict[int, int] = {}

    def begin(self) -> None:
        """Forget earlier calls."""
        numbers = {n for group in self._counters.values() for n in group}
        self._start = {n: int(self._memory.counters[n]) for n in numbers}

    def read(self) -> list[KernelCount]:
        """The kernels called since `begin`, the one that does the work first."""
        counts = []
        for name, numbers in self._counters.items():
            count = sum(int(self._memory.counters[n]) - self._start.get(n, 0) for n in numbers)
            if count and not _HELPER.search(name):
                counts.append(KernelCount(name, self.core, self.library.path, count))
        return sorted(counts, key=_rank)


def find_tables() -> tuple[list[TableTrace], dict[str, str]]:
    """A trace for every OpenBLAS in this process, and why there is none for others by path."""
    traces, problems = [], {}
    for loaded in loaded_objects():
        # Conda's OpenBLAS is loaded under one of its other names, liblapack.so.3 for instance.
        blas = _openblas(loaded) if is_blas_file(loaded.name) else None
        if blas is None:
            continue
        try:
            traces.append(TableTrace(loaded, blas))
        except (NoSymbolsError, OSError) as error:
            problems[loaded.path] = str(error)
    return traces, problems


def _openblas(loaded: LoadedObject) -> Blas | None:
    """The library, if it has OpenBLAS's own functions itself, and not only those of any BLAS."""
    handle = opened(loaded.path)
    blas = OpenBlas.recognise(os.path.realpath(loaded.path), handle) if handle else None
    if blas is None or handle is None:
        return None
    mark = exported(handle, OpenBlas.mark.join(blas.affixes))
    return blas if mark and loaded.contains(mark.address) else None


def _live_table(library: LoadedObject, symbols: SymbolTable, blas: Blas) -> tuple[str, int, int]:
    """(name, address, bytes) of the table of kernels in use."""
    pointer = symbols.find("gotoblas")
    config = blas.ask(OpenBlas.mark, ctypes.c_char_p) or ""
    if "DYNAMIC_ARCH" not in config:
        raise NoSymbolsError(
            f"{library.name} is built for one kind of processor and has no table of kernels "
            f"({config or 'it does not describe itself'})"
        )
    if pointer is None:
        raise NoSymbolsError(
            f"{library.name} is stripped: its symbols are gone, so its table of kernels cannot be "
            f"found"
        )
    start = read_word(library.base + pointer[0])
    for name, size in symbols.objects_at(start - library.base):
        if name.startswith("gotoblas_") and size:
            return name, start, size
    raise NoSymbolsError(
        f"{library.name} is stripped: the table of kernels that it uses has no name and no size"
    )


def _table_functions(
    library: LoadedObject, symbols: SymbolTable, start: int, size: int
) -> dict[int, tuple[int, str]]:
    """Each word of the table that holds a function of the library: its target and name."""
    memory: Any = (ctypes.c_uint64 * (size // 8)).from_address(start)
    words = np.frombuffer(memory, np.uint64)
    found, targets = {}, 0
    for position, target in enumerate(words.tolist()):
        if library.contains(target, executable=True):
            targets += 1
            name = symbols.function_at(target - library.base)
            if name is not None:
                found[start + 8 * position] = target, name
    if not found:
        raise NoSymbolsError(
            f"{library.name} is stripped: none of the {targets} kernels in its table has a name"
        )
    return found


def _rank(kernel: KernelCount) -> tuple[int, int]:
    weight = next((i for i, word in enumerate(_WEIGHT) if word in kernel.name), len(_WEIGHT))
    return weight, -kernel.count
