"""The families of BLAS libraries: how each one is recognised, and what its own functions tell.

A library is recognised by the functions that it exports, not by its file's name: Debian, conda and
the wheels name the same library differently, and torch carries MKL inside its own library.
"""

from __future__ import annotations

import ctypes
import platform
import re
import sys
from pathlib import Path

from gemmgrid.measure.libraries.blas import Blas, exports, first_version, has_gemm
from gemmgrid.measure.libraries.linker import exported, mapped_files


class OpenBlas(Blas):
    """https://github.com/OpenMathLib/OpenBLAS, `cblas.h`."""

    family, name = "openblas", "OpenBLAS"
    mark = "openblas_get_config"
    getter, setter = "openblas_get_num_threads", "openblas_set_num_threads"

    def version(self) -> str | None:
        return first_version(self._config())

    def core(self) -> str | None:
        return self.ask("openblas_get_corename", ctypes.c_char_p)

    def threading(self) -> str | None:
        layers = {0: "none", 1: "pthreads", 2: "openmp"}
        return layers.get(self.ask("openblas_get_parallel"))

    def interface(self) -> str | None:
        return "ilp64" if "USE64BITINT" in self._config() else "lp64"

    def _config(self) -> str:
        return self.ask("openblas_get_config", ctypes.c_char_p) or ""


class Mkl(Blas):
    """oneMKL: `libmkl_rt`, its parts linked one by one, or a static copy inside another library."""

    family, name = "mkl", "MKL"
    mark = "MKL_Get_Version_String"
    getter, setter = "MKL_Get_Max_Threads", "MKL_Set_Num_Threads"

    def version(self) -> str | None:
        text = ctypes.create_string_buffer(256)
        function = self.function("MKL_Get_Version_String", None, ctypes.c_char_p, ctypes.c_int)
        if not function:
            return None
        function(text, len(text))
        return first_version(text.value.decode(errors="replace"))

    def core(self) -> str | None:
        """The kernel library that its dispatcher mapped: def, mc3, avx2, avx512, avx10."""
        self.unknown["core"] = (
            "MKL maps the library of its kernels at the first product, and none is mapped; a "
            "static copy has none"
        )
        return self._part(r"libmkl_(def|mc3|avx\w*)\.")

    def threading(self) -> str | None:
        layers = {"intel": "openmp (intel)", "gnu": "openmp (gnu)", "tbb": "tbb"}
        if self._part(r"libmkl_(sequential)\."):
            return "none"
        self.unknown["threading"] = "no library of an MKL threading layer is mapped (a static copy)"
        return layers.get(self._part(r"libmkl_(intel|gnu|tbb)_thread\.") or "")

    def interface(self) -> str | None:
        self.unknown["interface"] = "no library of an MKL interface is mapped (a static copy)"
        return self._part(r"libmkl_(?:intel|gf)_(i?lp64)\.")

    def _part(self, pattern: str) -> str | None:
        """The name of one of MKL's parts among the mapped files of this library's folder."""
        folder = Path(self.file).parent
        for file in map(Path, mapped_files()):
            found = re.match(pattern, file.name) if file.parent == folder else None
            if found:
                return found[1]
        return None


class Blis(Blas):
    """https://github.com/flame/blis, `bli_info.h`, `bli_thread.h`; AMD's AOCL-BLAS alike."""

    family, name = "blis", "BLIS"
    mark = "bli_info_get_version_str"
    getter, setter = "bli_thread_get_num_threads", "bli_thread_set_num_threads"
    count = ctypes.c_int64

    def version(self) -> str | None:
        return self.ask("bli_info_get_version_str", ctypes.c_char_p)

    def core(self) -> str | None:
        name = self.function("bli_arch_string", ctypes.c_char_p, ctypes.c_int)
        query = self.function("bli_arch_query_id", ctypes.c_int)
        return name(query()).decode() if name and query else None

    def threading(self) -> str | None:
        for layer in ("openmp", "pthreads", "hpx", "tbb"):
            if self.ask(f"bli_info_get_enable_{layer}"):
                return layer
        return "none" if self.ask("bli_info_get_enable_threading") == 0 else None

    def interface(self) -> str | None:
        return {32: "lp64", 64: "ilp64"}.get(self.ask("bli_info_get_blas_int_type_size") or 0)

    def threads(self) -> int | None:
        threads = super().threads()
        return 1 if threads == -1 else threads  # -1: nobody has asked for any


class Accelerate(Blas):
    """Apple's; ships with macOS. Not yet run on that system."""

    family, name = "accelerate", "Accelerate"
    getter, setter = "BLASGetThreading", "BLASSetThreading"

    @classmethod
    def recognise(cls, file: str, handle: ctypes.CDLL) -> Blas | None:
        inside = "/vecLib.framework/" in file or file.endswith("/Accelerate")
        return cls(file, handle) if inside and exported(handle, "cblas_sgemm") else None

    def version(self) -> str | None:
        return f"macOS {platform.mac_ver()[0]}"

    def threads(self) -> int | None:
        """BLASGetThreading (macOS 15): 0 is BLAS_THREADING_MULTI_THREADED, 1 single-threaded."""
        return 1 if super().threads() == 1 else None

    def set_threads(self, threads: int) -> bool:
        return threads == 1 and super().set_threads(1)


class Nvpl(Blas):
    """NVIDIA Performance Libraries for Arm, `nvpl_blas_service.h`. Not yet run on that hardware."""

    family, name = "nvpl", "NVPL BLAS"
    mark = "nvpl_blas_get_version"
    getter, setter = "nvpl_blas_get_max_threads", "nvpl_blas_set_num_threads"

    def version(self) -> str | None:
        number = self.ask("nvpl_blas_get_version")
        return None if number is None else f"{number // 10000}.{number // 100 % 100}.{number % 100}"


class Flexiblas(Blas):
    """A switch between BLAS libraries, `flexiblas_api.h`; the core is the backend that it chose.

    Not yet run against the real one.
    """

    family, name = "flexiblas", "FlexiBLAS"
    mark = "flexiblas_current_backend"
    getter, setter = "flexiblas_get_num_threads", "flexiblas_set_num_threads"

    def version(self) -> str | None:
        parts = [ctypes.c_int() for _ in range(3)]
        function = self.function("flexiblas_get_version", None, *[ctypes.c_void_p] * 3)
        if not function:
            return None
        function(*map(ctypes.byref, parts))
        return ".".join(str(part.value) for part in parts)

    def core(self) -> str | None:
        name = ctypes.create_string_buffer(256)
        function = self.function(self.mark, ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t)
        if function:
            function(name, len(name))
        return name.value.decode(errors="replace") or None


class Netlib(Blas):
    """The reference BLAS: it has the standard's routines and none of the usual extensions."""

    family, name = "netlib", "Netlib reference BLAS"

    @classmethod
    def recognise(cls, file: str, handle: ctypes.CDLL) -> Blas | None:
        extended = any(exports(file, handle, name) for name in EXTENSIONS)
        return cls(file, handle) if has_gemm(file, handle) and not extended else None

    def version(self) -> str | None:
        """From the file's name (libblas.so.3.10.0)."""
        return first_version(Path(self.file).name.partition(".so.")[2])

    def core(self) -> str | None:
        return "generic"

    def threading(self) -> str | None:
        return "none"

    def threads(self) -> int | None:
        return 1


EXTENSIONS = ("caxpby_", "cblas_caxpby", "catlas_caxpby", "cgemm3m_", "cblas_sgemm_batch")
"""Routines beyond the standard, of which every vendor's library has one."""
FAMILIES: tuple[type[Blas], ...] = (Flexiblas, OpenBlas, Mkl, Blis, Nvpl, Accelerate, Netlib)
"""In the order in which they are tried: a switch before what it switches to, Netlib last."""
TRACES = {b"libblis: ": Blis, b"OpenBLAS ": OpenBlas}
"""Text in libraries whose build hides their functions, such as Debian's libblas.so.3 of BLIS."""


def recognise(file: str, handle: ctypes.CDLL) -> Blas | None:
    """The BLAS library in this file, or None where it is something else."""
    for family in FAMILIES:
        if family is Accelerate and sys.platform != "darwin":
            continue
        blas = family.recognise(file, handle)
        if blas:
            return blas
    return _by_content(file, handle) if has_gemm(file, handle) else None


def _by_content(file: str, handle: ctypes.CDLL) -> Blas | None:
    content = Path(file).read_bytes() if Path(file).is_file() else b""
    for trace, family in TRACES.items():
        if trace in content:
            return family(file, handle)
    return None
