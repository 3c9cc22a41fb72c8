"""From what was seen to what is said, on test doubles of what the tracers report."""

from __future__ import annotations

from collections import Counter
from typing import Any

from gemmgrid.measure.dispatch.documented import expected
from gemmgrid.measure.dispatch.evidence import conclude
from gemmgrid.measure.dispatch.hidden_work import Asked, Memory
from gemmgrid.measure.dispatch.library_logs.cpu_libraries import LoggedCall
from gemmgrid.measure.dispatch.trace.kernel_table import KernelCount
from gemmgrid.measure.dispatch.trace.perf_sampling import Place, Samples
from gemmgrid.measure.dispatch.trace.routine_calls import TracedCall
from gemmgrid.measure.dispatch.trace.signatures import parse
from gemmgrid.measure.dispatch.watch import Watched

OPENBLAS = "/lib/libopenblas.so.0"
GEMM = {"order": "row", "transa": "n", "transb": "n", "m": 64, "n": 32, "k": 16, "alpha": 1.0,
        "lda": 16, "ldb": 32, "beta": 0.0, "ldc": 32}  # fmt: skip
ASKED = Asked("float32", "gemm")


def call(symbol: str = "cblas_sgemm", count: int = 1, **more: Any) -> TracedCall:
    routine = parse(symbol)
    assert routine
    values: dict[str, Any] = {"arguments": GEMM, "addresses": {}, "library": OPENBLAS, **more}
    return TracedCall(routine, "/lib/_caller.so", count=count, **values)


def kernel(library: str = OPENBLAS) -> KernelCount:
    return KernelCount("sgemm_kernel_HASWELL", "Haswell", library, 12)


def samples(**places: int) -> Samples:
    """Counts by function; `unnamed` is code without a name."""
    counted = Counter(
        {Place("/lib/_caller.so", None if f == "unnamed" else f): n for f, n in places.items()}
    )
    return Samples(counted)


def conclude_plainly(
    seen: Watched, asked: Asked = ASKED, memory: dict[str, Memory] | None = None
) -> dict[str, Any]:
    return conclude(seen, asked, memory or {})


def test_traced_routine_and_kernel() -> None:
    record = conclude_plainly(Watched(calls=[call()], kernels=[kernel()], slots_watched=9))
    assert record["status"] == "ok"
    assert record["routines"][0]["evidence"] == record["kernels"][0]["evidence"] == "traced"
    assert record["routines"][0]["args"] == GEMM
    assert record["inconsistent"] is None
    assert record["no_blas"] is None


def test_a_kernel_without_a_routine_is_inconsistent() -> None:
    record = conclude_plainly(Watched(kernels=[kernel()], slots_watched=9))
    assert "none of the 9 watched addresses" in record["inconsistent"]
    assert record["routines"][0]["evidence"] == "unknown"
    assert record["no_blas"] is None


def test_but_not_where_calls_could_not_be_traced() -> None:
    seen = Watched(kernels=[kernel()], problems={"trace": "refused"})
    assert conclude_plainly(seen)["inconsistent"] is None


def test_a_kernel_of_another_library_than_the_routine_is_inconsistent() -> None:
    seen = Watched(calls=[call()], kernels=[kernel("/lib/other/libblas.so")], slots_watched=9)
    assert "libblas.so" in conclude_plainly(seen)["inconsistent"]


def test_sampled_blas_without_a_routine_is_inconsistent_and_never_no_blas() -> None:
    seen = Watched(slots_watched=9, samples=samples(mkl_blas_avx512_sgemm_kernel_0=100))
    record = conclude_plainly(seen)
    assert "mkl_blas_avx512_sgemm_kernel_0" in record["inconsistent"]
    assert record["no_blas"] is None


def test_no_blas_needs_watched_slots_and_a_function_that_worked() -> None:
    proof = conclude_plainly(Watched(slots_watched=9, samples=samples(HALF_matmul=100)))["no_blas"]
    assert proof["slots_watched"] == 9
    assert (proof["function"], proof["share"]) == ("HALF_matmul", 1.0)
    unproved = [
        Watched(slots_watched=0, samples=samples(HALF_matmul=100)),
        Watched(slots_watched=9, samples=samples(HALF_matmul=10)),
        Watched(slots_watched=9, samples=samples(HALF_matmul=3, **{f"f{i}": 3 for i in range(40)})),
        Watched(slots_watched=9, samples=samples(unnamed=100)),
        Watched(slots_watched=9, samples=samples(PyUFunc_GenericFunction=100)),
        Watched(slots_watched=9, samples=samples(gomp_barrier_wait=100)),
        Watched(slots_watched=9, problems={"sample": "refused"}),
    ]
    for seen in unproved:
        record = conclude_plainly(seen)
        assert record["no_blas"] is None
        assert record["routines"][0]["evidence"] == "unknown"
        assert record["routines"][0]["reason"]


def test_time_spent_waiting_does_not_hide_the_work() -> None:
    seen = Watched(
        slots_watched=9, samples=samples(gomp_barrier_wait_end=900, blas_thread_server=50, work=60)
    )
    record = conclude_plainly(seen)
    assert (record["kernels"][0]["name"], record["kernels"][0]["share"]) == ("work", 1.0)
    assert record["kernels"][0]["samples"] == 1010


def test_the_interpreters_time_is_not_the_products() -> None:
    seen = Watched(
        slots_watched=9,
        samples=Samples(
            Counter({Place("/usr/lib/libpython3.11.so.1.0", "eval"): 90, Place("/x.so", "dot"): 10})
        ),
    )
    assert conclude_plainly(seen)["kernels"][0]["name"] == "dot"


def test_logged_calls_are_grouped_and_a_reorder_is_hidden_work() -> None:
    matmul = LoggedCall("oneDNN", "matmul", "matmul", {"m": 2}, "brg:avx512_core_bf16")
    reorder = LoggedCall("oneDNN", "reorder", "reorder", {}, "jit:uni")
    record = conclude_plainly(
        Watched(logged=[reorder, matmul, matmul], slots_watched=9), Asked("bfloat16", "gemm")
    )
    assert [(r["symbol"], r["count"]) for r in record["routines"]] == [("matmul", 2)]
    assert record["hidden"][0]["what"] == "operand-copy"
    assert record["no_blas"] is None


def test_copies_are_told_by_addresses_outside_of_every_operand() -> None:
    memory = {"A": Memory(0x1000, 0x2000), "B": Memory(0x3000, 0x4000)}
    passed = call(addresses={"A": 0x1000, "B": 0x3FFF, "C": 0x9000})
    copied = call(addresses={"A": 0x2000, "B": 0x3000, "C": 0x9000})
    assert conclude_plainly(Watched(calls=[passed]), memory=memory)["hidden"] == []
    (work,) = conclude_plainly(Watched(calls=[copied]), memory=memory)["hidden"]
    assert (work["what"], work["count"], work["bytes"]) == ("operand-copy", 1, 64 * 16 * 4)
    assert conclude_plainly(Watched(calls=[copied]))["hidden"] == []


def test_a_result_elsewhere_is_told_only_where_one_was_given() -> None:
    elsewhere = Watched(calls=[call(addresses={"A": 1, "B": 1, "C": 0x9000})])
    memory = {"A": Memory(0, 8), "C": Memory(0x5000, 0x6000)}
    given = conclude_plainly(elsewhere, Asked("float32", "gemm", output="C"), memory)["hidden"]
    assert given[0]["bytes"] == 64 * 32 * 4
    assert conclude_plainly(elsewhere, ASKED, memory)["hidden"] == []


def test_many_calls_slices_and_upcasts() -> None:
    dots = call("cblas_sdot", 5000, arguments={"n": 9, "incx": 1, "incy": 1})
    assert conclude_plainly(Watched(calls=[dots]))["hidden"][0]["what"] == "many-calls"
    slices = conclude_plainly(Watched(calls=[call(count=8)]), Asked("float32", "gemm", 8))["hidden"]
    assert (slices[0]["what"], slices[0]["count"]) == ("per-slice", 8)
    (upcast,) = conclude_plainly(Watched(calls=[call()]), Asked("bfloat16", "gemm"))["hidden"]
    assert (upcast["what"], upcast["bytes"]) == ("upcast", (64 * 16 + 16 * 32) * 4)


def test_a_product_cut_short_is_not_counted_to_its_end() -> None:
    record = conclude_plainly(Watched(calls=[call()], kernels=[kernel()], running_s=0.4))
    assert "still ran after 0.4 s" in record["reason"]
    assert record["kernels"][0]["count"] is None
    assert "not counted to the end" in record["kernels"][0]["reason"]


def test_documented_is_the_last_resort_and_names_its_source() -> None:
    seen = Watched(problems={"trace": "macOS"})
    record = conclude(seen, Asked("float32", "gemm", library="mlx"), {}, "gpu")
    system_entry = expected("mlx", "gpu", "Linux", "float32")
    assert system_entry
    assert record["routines"][0]["evidence"] == "documented"
    assert record["routines"][0]["symbol"] == system_entry.routine
    assert system_entry.source.count("@") == 1


def test_every_source_in_the_table_has_repository_commit_and_path() -> None:
    asked = [
        ("torch", "cuda", "Linux", "float32", "gemm", 1, "cublasSgemm"),
        ("torch", "cuda", "Linux", "bfloat16", "gemm", 1, "cublasGemmEx"),
        ("torch", "cuda", "Linux", "complex128", "gemm", 4, "cublasZgemmStridedBatched"),
        ("torch", "mps", "Darwin", "float16", "gemm", 1, "MPSGraph matrixMultiplication"),
        ("mlx", "gpu", "Darwin", "float32", "gemm", 1, "MLX Metal matmul"),
        ("mlx", "cpu", "Darwin", "bfloat16", "gemm", 1, "BNNSFilterApplyTwoInput"),
    ]
    for adapter, device, system, dtype, routine, batch, start in asked:
        entry = expected(adapter, device, system, dtype, routine, batch)
        assert entry
        assert entry.routine.startswith(start)
        repository, rest = entry.source.split("@")
        commit, path = rest.split(" ", 1)
        assert "/" in repository
        assert len(commit) >= 8
        assert int(commit, 16)
        assert "." in path
    assert expected("numpy", "cpu", "Linux", "float32", blas="openblas") is None
    assert expected("numpy", "cpu", "Darwin", "float32", blas="openblas") is None
