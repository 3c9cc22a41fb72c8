"""Where looking is refused, the record says why, each refusal in its own words, and nothing breaks.

The refusals are real: a seccomp filter in the test's own process makes the kernel refuse.
"""

from __future__ import annotations

import json
import os
import platform
import struct
import textwrap
from pathlib import Path
from typing import Any

import pytest

from gemmgrid.measure.dispatch.objects.refusals import platform_problem
from gemmgrid.measure.dispatch.trace import perf_sampling
from tests.measure.interpreters import interpreter, run

REFUSE = """
import ctypes, json, os, platform, struct
import numpy as np
from pathlib import Path
from gemmgrid.measure.dispatch.evidence import observe
from gemmgrid.measure.dispatch.hidden_work import Asked

NUMBERS = {
    "x86_64": {"mmap": 9, "mprotect": 10, "perf_event_open": 298},
    "aarch64": {"mmap": 222, "mprotect": 226, "perf_event_open": 241},
}[platform.machine()]

def refuse(name, error, argument=None, bits=0):
    '''From now on this system call is answered with an error, if that argument has the bits.'''
    load, equal, any_bit, answer = 0x20, 0x15, 0x45, 0x06
    allow, deny = 0x7FFF0000, 0x00050000 | error
    code = [(load, 0, 0, 0), (equal, 0, 1 if argument is None else 3, NUMBERS[name])]
    if argument is not None:
        code += [(load, 0, 0, 16 + 8 * argument), (any_bit, 0, 1, bits)]
    code += [(answer, 0, 0, deny), (answer, 0, 0, allow)]
    filters = b"".join(struct.pack("<HBBI", *one) for one in code)
    buffer = ctypes.create_string_buffer(filters, len(filters))
    program = struct.pack("<HxxxxxxQ", len(code), ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.prctl(22, 2, ctypes.c_char_p(program)) == 0

A = np.random.default_rng(1).standard_normal((128, 128)).astype(np.float32)
H = A.astype(np.float16)
A @ A
gemm, half = Asked("float32", "gemm"), Asked("float16", "gemm")
"""


def ask(body: str, environment: str = "numpy-openblas", **more: str) -> Any:
    code = REFUSE + textwrap.dedent(body)
    more.setdefault("OPENBLAS_NUM_THREADS", "1")
    return json.loads(run(environment, "-c", code, **more).splitlines()[-1])


def test_no_executable_memory_leaves_sampling() -> None:
    record = ask("""
        refuse("mmap", 13, argument=2, bits=4)
        print(json.dumps(observe(lambda: A @ A.copy(), gemm)))
    """)
    reason = record["routines"][0]["reason"]
    assert record["routines"][0]["evidence"] == "unknown"
    assert "no new executable memory" in reason
    assert record["kernels"][0]["evidence"] == "sampled"
    assert record["kernels"][0]["name"].startswith("sgemm_")
    assert record["no_blas"] is None


def test_no_memory_for_stubs_is_told_too() -> None:
    message = ask("""
        from gemmgrid.measure.dispatch.trace.stubs import StubMemory, Wanted
        from gemmgrid.measure.dispatch.objects.refusals import ExecutableMemoryError
        memory = StubMemory()
        refuse("mmap", 13, argument=2, bits=4)
        try:
            memory.get([Wanted("one", 4096)])
        except ExecutableMemoryError as error:
            print(json.dumps(str(error)))
    """)
    assert "no new executable memory (EACCES" in message


def test_pages_that_cannot_be_made_writable() -> None:
    """Only where a table is read-only is its page touched at all; here it is made read-only."""
    message = ask(
        """
        from scipy.linalg import _fblas
        from gemmgrid.measure.dispatch.objects import elf, words
        from gemmgrid.measure.libraries.memory_map import READ
        from gemmgrid.measure.dispatch.trace.routine_calls import RoutineTrace
        from gemmgrid.measure.dispatch.trace.patch import tracing
        from gemmgrid.measure.dispatch.objects.refusals import ProtectionError
        trace = RoutineTrace()
        loaded = [o for o in elf.loaded_objects() if o.path == _fblas.__file__][0]
        every = [one.address for one in elf.imports(loaded, lambda name: True)]
        page = (min(every) + 4095) & ~4095
        words._protect(page, READ)
        before = [words.read_word(s.address) for s in trace.switches]
        refuse("mprotect", 13, argument=2, bits=2)
        try:
            with tracing(trace):
                raise AssertionError("not refused")
        except ProtectionError as error:
            after = [words.read_word(s.address) for s in trace.switches]
            print(json.dumps([str(error), before == after]))
        """,
        "scipy-openblas",
        LD_BIND_NOW="1",
    )
    text, unchanged = message
    assert "mprotect" in text
    assert unchanged


def test_no_sampling_leaves_tracing() -> None:
    record = ask("""
        refuse("perf_event_open", 13)
        print(json.dumps(observe(lambda: A @ A.copy(), gemm)))
    """)
    assert record["routines"][0]["evidence"] == "traced"
    assert record["kernels"][0]["evidence"] == "traced"


def test_without_sampling_no_blas_is_not_proved() -> None:
    record = ask("""
        refuse("perf_event_open", 1)
        print(json.dumps(observe(lambda: H @ H, half)))
    """)
    routine, kernel = record["routines"][0], record["kernels"][0]
    assert record["no_blas"] is None
    assert routine["evidence"] == kernel["evidence"] == "unknown"
    assert "perf_event_paranoid is" in routine["reason"]
    assert "EPERM" in kernel["reason"]


@pytest.mark.parametrize(
    ("setting", "words"),
    [("3", "sysctl kernel.perf_event_paranoid=2"), ("2", "seccomp profile"), ("4", "by root")],
)
def test_each_reason_for_no_sampling_has_its_cure(
    monkeypatch: pytest.MonkeyPatch, setting: str, words: str
) -> None:
    monkeypatch.setattr(perf_sampling, "_setting", lambda name: setting)
    message = perf_sampling._refusal(13)
    assert f"perf_event_paranoid is {setting}" in message
    assert words in message


def test_a_kernel_without_the_call_is_told_apart() -> None:
    assert "no perf_event_open" in perf_sampling._refusal(38)


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="runs as root already not"
)
def test_sampling_needs_no_root() -> None:
    if int(Path("/proc/sys/kernel/perf_event_paranoid").read_text(encoding="utf-8")) > 2:
        pytest.skip("perf_event_paranoid is above 2 on this machine")
    record = ask("""
        observe(lambda: H @ H, half)  # reads the symbols while it may
        os.setgid(65534), os.setuid(65534)
        ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # may look at itself, as any process may
        print(json.dumps(observe(lambda: H @ H, half)))
    """)
    assert record["kernels"][0]["evidence"] == "sampled", record
    assert record["kernels"][0]["name"] == "HALF_matmul"


def test_a_stripped_library_has_no_kernel_names(tmp_path: Path) -> None:
    library = next(interpreter("cblas-openblas").parents[1].rglob("libscipy_openblas64_.so"))
    copy = tmp_path / library.name
    copy.write_bytes(without_symbols(library.read_bytes()))
    record = ask(
        """
        from gemmgrid.measure.invocation import operands
        from gemmgrid.measure.adapters.cblas import CblasAdapter
        from gemmgrid.measure.invocation.loop import compile_loop
        from gemmgrid.records.cell import Cell
        cell = Cell.parse("gemm.float32.300x300x300.t1")
        adapter = CblasAdapter("cpu", {"path": os.environ["LIBRARY"]})
        loop = compile_loop(adapter.prepare(cell, operands.make(cell, 1)))
        print(json.dumps(observe(lambda: loop.batch(1), Asked("float32", "gemm", library="cblas"))))
        """,
        "cblas-openblas",
        LIBRARY=str(copy),
        OPENBLAS_NUM_THREADS="1",
    )
    assert record["routines"][0]["evidence"] == "traced"
    kernel = record["kernels"][0]
    assert (kernel["evidence"], kernel["name"]) == ("unknown", None)
    assert "is stripped" in kernel["reason"]
    assert kernel["share"] > 0.5
    assert "is stripped" in record["problems"][str(copy)]


def without_symbols(elf: bytes) -> bytes:
    """What `strip` does to the symbol table: the section is there no more."""
    data = bytearray(elf)
    (offset,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    for start in range(offset, offset + size * count, size):
        (kind,) = struct.unpack_from("<I", data, start + 4)
        if kind == 2:
            struct.pack_into("<I", data, start + 4, 0)
    return bytes(data)


@pytest.mark.parametrize(
    ("system", "machine", "libc", "words"),
    [
        ("Darwin", "arm64", "", "macOS"),
        ("Linux", "x86_64", "", "musl"),
        ("Linux", "riscv64", "glibc 2.36", "processor riscv64"),
        ("Windows", "AMD64", "", "Linux only"),
    ],
)
def test_unsupported_platforms_are_told_apart(
    system: str, machine: str, libc: str, words: str
) -> None:
    assert words in (platform_problem(system, machine, libc) or "")


def test_this_platform_is_supported_where_the_tests_run() -> None:
    if platform.system() == "Linux" and platform.machine() in ("x86_64", "aarch64"):
        assert platform_problem("Linux", platform.machine(), "glibc 2.36") is None


def test_on_an_unsupported_platform_the_table_of_sources_answers() -> None:
    """A test double of macOS: what the record looks like where nothing can be seen."""
    record = ask("""
        import platform as known
        known.system = lambda: "Darwin"
        print(json.dumps(observe(lambda: A @ A.copy(), gemm, blas="accelerate")))
    """)
    routine, kernel = record["routines"][0], record["kernels"][0]
    assert routine["evidence"] == "documented"
    assert routine["symbol"] == "cblas_sgemm$NEWLAPACK$ILP64"
    assert routine["source"].startswith("numpy/numpy@")
    assert kernel["evidence"] == "unknown"
    assert "macOS" in kernel["reason"]
    assert record["no_blas"] is None
