"""The tracers change live memory: they must not change results, and must leave nothing behind."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.measure.interpreters import run

START = """
import ctypes, json, os, threading
import numpy as np
from pathlib import Path
from gemmgrid.measure.dispatch.objects import elf, words
from gemmgrid.measure.libraries.memory_map import READ, MemoryMap
from gemmgrid.measure.dispatch.trace.routine_calls import RoutineTrace
from gemmgrid.measure.dispatch.trace.kernel_table import find_tables
from gemmgrid.measure.dispatch.trace.patch import PatchSet, tracing
from gemmgrid.measure.dispatch.objects.refusals import TracerBusyError

def tracers():
    return [RoutineTrace(), *find_tables()[0]]

def held(traces):
    return {s.address: words.read_word(s.address) for t in traces for s in t.switches}

def protections(traces):
    known = MemoryMap()
    return {s.address: known.at(s.address).protection for t in traces for s in t.switches}

generator = np.random.default_rng(1)
A, B = generator.standard_normal((2, 96, 96)).astype(np.float32)
"""


def ask(body: str, environment: str = "numpy-openblas", **more: str) -> Any:
    """The JSON that `body` prints last, in a process of the environment."""
    code = START + textwrap.dedent(body)
    return json.loads(run(environment, "-c", code, **more).splitlines()[-1])


def test_results_are_bitwise_equal_with_and_without_tracers() -> None:
    answer = ask("""
        plain, vector, scalar = A @ B, A @ B[0], A[0] @ B[0]
        z = A + 1j * B
        before = [plain, vector, scalar, z @ z, z[0] @ z[1], A @ A.T]
        with tracing(*tracers()):
            during = [A @ B, A @ B[0], A[0] @ B[0], z @ z, z[0] @ z[1], A @ A.T]
        print(json.dumps([np.array_equal(b, d) for b, d in zip(before, during)]))
    """)
    assert answer == [True] * 6


@pytest.mark.parametrize("threads", ["1", "2"])
def test_four_threads_at_once_get_their_results_and_are_all_counted(threads: str) -> None:
    answer = ask(
        """
        operands = [generator.standard_normal((2, 64, 64)).astype(np.float32) for _ in range(4)]
        expected = [a @ b for a, b in operands]
        wrong = []
        def work(i):
            a, b = operands[i]
            for _ in range(2000):
                if not np.array_equal(a @ b, expected[i]):
                    wrong.append(i)
        traces = tracers()
        with tracing(*traces):
            workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
            [worker.start() for worker in workers]
            [worker.join() for worker in workers]
        calls = [(c.routine.name, c.arguments["m"], c.count) for c in traces[0].read()]
        print(json.dumps([len(wrong), calls, traces[1].read()[0].count]))
        """,
        OPENBLAS_NUM_THREADS=threads,
    )
    wrong, calls, kernels = answer
    assert wrong == 0
    assert calls == [["sgemm", 64, 8000]]
    assert kernels >= 8000


def test_afterwards_every_word_and_every_protection_is_as_it_was() -> None:
    answer = ask("""
        A @ B
        traces = tracers()
        before, guarded = held(traces), protections(traces)
        with tracing(*traces) as patch:
            changed = sum(words.read_word(a) != v for a, v in before.items())
            during = protections(traces)
            A @ B
        print(json.dumps({
            "restored": held(traces) == before,
            "protected": protections(traces) == guarded,
            "protected during": during == guarded,
            "changed": changed, "all": len(before), "lost": patch.lost, "refused": patch.refused,
        }))
    """)
    assert answer.pop("changed") == answer.pop("all") > 100
    assert answer == {
        "restored": True, "protected": True, "protected during": True, "lost": 0, "refused": 0,
    }  # fmt: skip


def test_also_when_the_product_raises() -> None:
    answer = ask("""
        traces = tracers()
        before = held(traces)
        try:
            with tracing(*traces):
                A @ B[:5]
        except ValueError:
            pass
        print(json.dumps(held(traces) == before))
    """)
    assert answer is True


def test_read_only_tables_are_patched_and_read_only_again() -> None:
    """Libraries linked with full RELRO have them read-only; here they are closed in the same way.

    LD_BIND_NOW lets the loader fill the tables beforehand, as it does with RELRO. Only pages that
    lie between two imported addresses are closed: others hold data that is written to.
    """
    answer = ask(
        """
        from scipy.linalg import _fblas
        loaded = [o for o in elf.loaded_objects() if o.path == _fblas.__file__][0]
        every = [one.address for one in elf.imports(loaded, lambda name: True)]
        trace = RoutineTrace()
        pages = {s.address & ~4095 for s in trace.switches if s.owner is loaded or (
            s.owner and s.owner.path == loaded.path)}
        pages = {p for p in pages if min(every) <= p and p + 4096 <= max(every)}
        closed = [s.address for s in trace.switches if s.address & ~4095 in pages]
        for page in pages:
            words._protect(page, READ)
        def state():
            known = MemoryMap()
            return sorted({known.at(address).protection for address in closed})
        with tracing(trace) as patch:
            _fblas.sgemm(1.0, A.T, B.T)
            _fblas.dgemm(1.0, A.T, B.T)
            _fblas.sdot(A[0], B[0])
            during = state()
        names = sorted(call.routine.name for call in trace.read())
        print(json.dumps([len(closed) > 20, during, state(), names, patch.lost]))
        """,
        "scipy-openblas",
        LD_BIND_NOW="1",
    )
    assert answer == [True, [1], [1], ["dgemm", "sdot", "sgemm"], 0]


def test_ten_thousand_cycles_leave_nothing_behind() -> None:
    answer = ask("""
        def state():
            status = Path("/proc/self/status").read_text()
            resident = int(status.split("VmRSS:")[1].split()[0])
            maps = len(Path("/proc/self/maps").read_text().splitlines())
            return [resident, maps, len(os.listdir("/proc/self/fd"))]
        A @ B
        traces = tracers()
        patch = PatchSet(traces[0].switches)
        def cycle(times):
            for i in range(times):
                patch.on()
                patch.off()
                if i % 100 == 0:
                    fresh = tracers()
                    with tracing(*fresh):
                        A @ B
        cycle(500)
        before = state()
        cycle(10_000)
        print(json.dumps([before, state()]))
    """)
    (resident, maps, files), (resident_after, maps_after, files_after) = answer
    assert maps_after <= maps + 2  # the interpreter's own arenas may come and go
    assert files_after == files
    assert resident_after - resident < 2048  # kB; a leak of 200 bytes a cycle would show


def test_only_one_tracer_at_a_time() -> None:
    answer = ask("""
        one, two = RoutineTrace(), RoutineTrace()
        messages = []
        with tracing(one):
            for attempt in (lambda: tracing(two).__enter__(), RoutineTrace):
                try:
                    attempt()
                except TracerBusyError as error:
                    messages.append(str(error))
            A @ B
        print(json.dumps([messages, [c.count for c in one.read()]]))
    """)
    messages, counts = answer
    assert len(messages) == 2
    assert "only one" in messages[0]
    assert counts == [1]


def test_nothing_is_read_or_switched_without_the_lock() -> None:
    """A test double of a lock that another tracer gives back right after it refused us."""
    answer = ask("""
        from gemmgrid.measure.dispatch.trace import patch
        class Lock:
            def acquire(self, blocking):
                return False
            def locked(self):
                return False
            def release(self):
                raise AssertionError("given back by one who never had it")
        trace = RoutineTrace()
        patch._patched = Lock()
        before, refused = held([trace]), []
        for attempt in (PatchSet(trace.switches).on, RoutineTrace, find_tables):
            try:
                attempt()
            except TracerBusyError as error:
                refused.append(str(error))
        print(json.dumps([refused, held([trace]) == before]))
    """)
    refused, same = answer
    assert len(refused) == 3
    assert same


def test_a_library_that_is_gone_is_left_alone(tmp_path: Path) -> None:
    """An object unloaded between looking and patching: its addresses may be anything by then."""
    answer = ask(
        """
        import _ctypes
        from scipy.linalg import _fblas
        copy = Path(os.environ["FOLDER"], "copy.so")
        copy.write_bytes(Path(_fblas.__file__).read_bytes())
        handle = _ctypes.dlopen(str(copy), os.RTLD_NOW)
        trace = RoutineTrace()
        mine = [s for s in trace.switches if s.owner and s.owner.path == str(copy)]
        _ctypes.dlclose(handle)
        gone = not [o for o in elf.loaded_objects() if o.path == str(copy)]
        with tracing(trace) as patch:
            watched, A_B = patch.watched(mine), A @ B
        print(json.dumps([len(mine), gone, watched, patch.gone, [c.count for c in trace.read()]]))
    """,
        "scipy-openblas",
        FOLDER=str(tmp_path),
    )
    count, gone, watched, gone_paths, counts = answer
    assert gone
    assert count > 0
    assert watched == 0
    assert gone_paths[0].endswith("copy.so")
    assert counts == [1]


def test_a_library_cannot_be_unloaded_while_it_is_patched(tmp_path: Path) -> None:
    answer = ask(
        """
        import _ctypes
        from scipy.linalg import _fblas
        copy = Path(os.environ["FOLDER"], "copy.so")
        copy.write_bytes(Path(_fblas.__file__).read_bytes())
        handle = _ctypes.dlopen(str(copy), os.RTLD_NOW)
        def loaded():
            return bool([o for o in elf.loaded_objects() if o.path == str(copy)])
        with tracing(RoutineTrace()) as patch:
            _ctypes.dlclose(handle)
            during = loaded()
        print(json.dumps([during, loaded(), patch.lost]))
    """,
        "scipy-openblas",
        FOLDER=str(tmp_path),
    )
    during, afterwards, lost = answer
    assert during
    assert not afterwards
    assert lost == 0


def test_calls_through_ctypes_are_traced_too() -> None:
    answer = ask("""
        path = [o.path for o in elf.loaded_objects() if "libscipy_openblas64_" in o.path][0]
        dot = ctypes.CDLL(path).scipy_cblas_sdot64_
        dot.restype = ctypes.c_float
        one, n = ctypes.c_int64(1), ctypes.c_int64(96)
        x, y = (ctypes.c_void_p(v.ctypes.data) for v in (A[0], B[0]))
        before = dot(n, x, one, y, one)
        trace = RoutineTrace()
        with tracing(trace):
            during = dot(n, x, one, y, one)
        call = trace.read()[0]
        addresses = [call.addresses["x"] == A.ctypes.data, call.addresses["y"] == B.ctypes.data]
        print(json.dumps([before == during, call.caller, call.arguments, addresses]))
    """)
    same, caller, arguments, addresses = answer
    assert same
    assert caller == "ctypes"
    assert arguments == {"n": 96, "incx": 1, "incy": 1}
    assert addresses == [True, True]


def test_more_calls_than_can_be_noted_are_counted() -> None:
    answer = ask("""
        from gemmgrid.measure.dispatch.trace import stubs
        trace = RoutineTrace()
        times = stubs.NOTED_CALLS + 1000
        with tracing(trace):
            for _ in range(times):
                A[0] @ B[0]
        call, = trace.read()
        print(json.dumps([call.count == times, call.unread, call.arguments["n"]]))
    """)
    assert answer == [True, 1000, 96]
