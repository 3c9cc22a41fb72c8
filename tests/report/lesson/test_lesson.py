"""The lesson's table on the page: each line with what was seen, and never more than that."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from gemmgrid.measure.dispatch.explain.expressions import parse
from gemmgrid.plan.config.registry import load_registry
from gemmgrid.records.cell import Cell
from gemmgrid.report.lesson import check as lesson_check
from gemmgrid.report.lesson import ways
from gemmgrid.report.lesson.check import Checked, check, document, system
from gemmgrid.report.page.sections.lesson import overheads
from gemmgrid.report.page.view import View
from gemmgrid.report.read.collect import Collection, collect
from tests.report import synthetic
from tests.report.page.test_page import Outline, render, section

ROOT = Path(__file__).parents[3]
CUDA = {"adapter": "torch", "device": "cuda"}
MPS = {"adapter": "torch", "device": "mps"}
METAL = {"adapter": "mlx", "device": "gpu"}


def ran(symbol: str | None, mark: str = "traced", **more: Any) -> dict[str, Any]:
    """Evidence that this routine ran, or what else `mark` says about it."""
    routine = {"evidence": mark, "symbol": symbol, "library": "/env/lib/OpenBLAS.so", "count": 1}
    return {"status": "ok", "routines": [routine], "kernels": [], "problems": {}, **more}


def write(results: Path, backend: str, cell: Cell, machine: str = "machine-a", **more: Any) -> None:
    synthetic.write_run(results, synthetic.run(cell, machine, backend, **more))


def line(collection: Collection, name: str) -> Checked:
    found = check(collection.cells, collection.machines)
    return next(one for one in found if one.line["id"] == name)


def article(html: str, expression: str) -> str:
    """The part of the section that is about one line."""
    parts = section(html, "lesson").split("<article")
    return next(part for part in parts if f"<h3><code>{expression}</code>" in part)


def test_a_routine_seen_as_the_lesson_says_agrees(tmp_path: Path) -> None:
    write(tmp_path, "numpy-openblas", synthetic.gemm(64), evidence=ran("scipy_cblas_sgemm64_"))
    write(tmp_path, "numpy-openblas", synthetic.gemm(64, "float64"), evidence=ran("cblas_dgemm"))
    collection = collect(tmp_path)
    assert line(collection, "numpy-gemm").verdict == "agrees"
    told = article(render(collection), "np.dot(A, B) or A @ B")
    assert "As the lesson says: scipy_cblas_sgemm64_ and cblas_dgemm ran in both cells" in told
    assert 'data-mark="traced"' in told
    assert "OpenBLAS 0.3.31 in OpenBLAS.so" in told
    assert "Not seen here" not in told


def test_another_routine_disagrees(tmp_path: Path) -> None:
    write(tmp_path, "numpy-openblas", synthetic.gemm(64), evidence=ran("cblas_ssyrk"))
    collection = collect(tmp_path)
    assert line(collection, "numpy-gemm").verdict == "disagrees"
    told = article(render(collection), "np.dot(A, B) or A @ B")
    assert "Not what the lesson says, in the one cell seen: cblas_ssyrk." in told


def test_a_routine_of_another_dtype_disagrees(tmp_path: Path) -> None:
    write(tmp_path, "numpy-openblas", synthetic.gemm(64, "float64"), evidence=ran("cblas_sgemm"))
    assert line(collect(tmp_path), "numpy-gemm").verdict == "disagrees"


def test_cells_that_differ_agree_in_part(tmp_path: Path) -> None:
    write(tmp_path, "numpy-openblas", synthetic.gemm(64), evidence=ran("cblas_sgemm"))
    write(tmp_path, "numpy-openblas", synthetic.gemm(8), evidence=ran("FLOAT_matmul", "sampled"))
    collection = collect(tmp_path)
    assert line(collection, "numpy-gemm").verdict == "agrees in part"
    told = article(render(collection), "np.dot(A, B) or A @ B")
    assert "in 1 of 2 cells seen; in the others: FLOAT_matmul." in told


def test_no_blas_disagrees_and_credits_no_library_with_it(tmp_path: Path) -> None:
    kernel = {"evidence": "sampled", "name": "FLOAT_matmul", "share": 0.73, "samples": 133}
    proof = {"slots_watched": 22, "function": "FLOAT_matmul", "share": 0.73, "samples": 133}
    kernel["library"] = "/env/numpy/_umath.so"
    evidence = {"status": "ok", "routines": [], "kernels": [kernel], "no_blas": proof}
    write(tmp_path, "numpy-openblas", synthetic.gemm(64), evidence=evidence)
    html = render(collect(tmp_path))
    told = article(html, "np.dot(A, B) or A @ B")
    assert "no BLAS (FLOAT_matmul did the work, 22 slots watched)" in told
    assert 'data-verdict="disagrees"' in told
    assert "_umath.so; OpenBLAS 0.3.31 was loaded, and not seen to run" in told
    assert "73 % of 133 samples" in section(html, "dispatch")


@pytest.mark.parametrize(
    ("backend", "where", "expression", "symbol", "verdict"),
    [
        ("torch-cuda", CUDA, "torch.matmul(A, B) on CUDA tensors", "cublasSgemm", "agree"),
        ("torch-mps", MPS, "torch.matmul(A, B) on MPS tensors", "MPSGraph matrix", "disagree"),
    ],
)
def test_documented_is_expected_and_never_ran(
    tmp_path: Path, backend: str, where: Any, expression: str, symbol: str, verdict: str
) -> None:
    write(tmp_path, backend, synthetic.gemm(64), evidence=ran(symbol, "documented"), **where)
    told = article(render(collect(tmp_path)), expression)
    assert f'data-verdict="expected to {verdict}"' in told
    assert "documented: expected, not seen" in told
    assert f"{symbol} is expected." in told
    assert " ran in " not in told
    assert not re.search('data-mark="(traced|logged|sampled)"', told)
    assert f"Not seen here: needs {_way(expression)['needs']}" in told


def test_what_was_seen_outweighs_what_is_expected(tmp_path: Path) -> None:
    for size, symbol, mark in (
        (64, "cublasSgemm", "documented"),
        (128, "cublasLtMatmul", "logged"),
    ):
        write(tmp_path, "torch-cuda", synthetic.gemm(size), evidence=ran(symbol, mark), **CUDA)
    assert line(collect(tmp_path), "torch-cuda-float32").verdict == "disagrees"


@pytest.mark.parametrize(
    ("machine", "found"),
    [
        ({"kernel": "Linux 6.18", "os": "Debian GNU/Linux 12 (bookworm)"}, "Linux"),
        ({"kernel": "Darwin 25.1.0", "os": "macOS 26.1"}, "Darwin"),
        ({"kernel": None, "os": "macOS 26.1"}, "Darwin"),
        ({"kernel": ["Darwin"], "os": 3}, None),
        (None, None),
    ],
)
def test_the_operating_system_of_a_machine(machine: Any, found: str | None) -> None:
    assert system(machine) == found


@pytest.mark.parametrize(("kernel", "count"), [("Darwin 25.1.0", 1), ("Linux 6.18", 0), (None, 0)])
def test_a_line_about_macs_takes_cells_of_macs_only(
    tmp_path: Path, kernel: str | None, count: int
) -> None:
    """MLX's device `gpu` is Metal on a Mac and CUDA on Linux."""
    write(tmp_path, "mlx-gpu", synthetic.gemm(64), evidence=ran("steel", "documented"), **METAL)
    collection = collect(tmp_path)
    collection.machines["machine-a"] = {"kernel": kernel}
    assert len(line(collection, "mlx-metal").findings) == count


def test_other_options_are_not_what_the_lesson_is_about(tmp_path: Path) -> None:
    reused = synthetic.gemm(64, trans="nt", reuse=True)
    write(tmp_path, "numpy-openblas", reused, evidence=ran("cblas_ssyrk"))
    assert line(collect(tmp_path), "numpy-gemm").verdict == "not seen here"


def test_measured_without_evidence_is_not_seen(tmp_path: Path) -> None:
    write(tmp_path, "numpy-openblas", synthetic.gemm(64))
    collection = collect(tmp_path)
    assert line(collection, "numpy-gemm").verdict == "not seen here"
    told = article(render(collection), "np.dot(A, B) or A @ B")
    assert "Measured here, but what ran was not seen." in told
    assert "&#39;expr=A @ B&#39; backend=numpy-openblas" in told
    assert "sgemm64" not in told


def test_a_failed_look_gives_its_reason(tmp_path: Path) -> None:
    failed = {"status": "failed", "reason": "the evidence process died of SIGSEGV"}
    write(tmp_path, "numpy-openblas", synthetic.gemm(64), evidence=failed)
    html = render(collect(tmp_path))
    for part in (article(html, "np.dot(A, B) or A @ B"), section(html, "dispatch")):
        assert "the evidence process died of SIGSEGV" in part
        assert 'data-mark="unknown"' in part


def test_every_line_stands_on_an_empty_page_with_its_command(tmp_path: Path) -> None:
    html = render(collect(tmp_path))
    Outline(html)
    for one in document()["lines"]:
        told = article(html, one["expression"])
        assert "Not seen here: needs" in told
        assert told.count('<div class="command">') == 2
        assert not one["note"] or "Where the lesson is wrong" in told


# ── The commands ─────────────────────────────────────────────────────────────────────────────────


def _way(expression: str) -> dict[str, Any]:
    return next(one["way"] for one in document()["lines"] if one["expression"] == expression)


@pytest.mark.parametrize("one", document()["lines"], ids=lambda one: one["id"])
def test_the_command_of_a_line_shows_that_line(one: dict[str, Any]) -> None:
    way = one["way"]
    backend = load_registry(ROOT)[way["backend"]]
    assert [backend.adapter] == one["match"]["adapter"]
    assert [backend.device] == one["match"]["device"]
    assert way["dtype"] in one["match"]["dtype"]
    operands = {"dot": ("x", "y"), "gemv": ("A", "x"), "gemm": ("A", "B")}
    (product,) = one["match"]["routine"]
    assert parse(way["expr"], backend.adapter).names == operands[product]
    if way["counter"]:
        parse(way["counter"]["expr"], backend.adapter)
    study = yaml.safe_load((ROOT / f"config/studies/{way['study']}.yaml").read_text())
    assert any(
        [block["routine"]] == one["match"]["routine"]
        and way["dtype"] in block.get("dtypes", ["float32"])
        and block.get("backends", "auto") == "auto"
        for block in study["grid"]
    )


def test_commands_are_words_that_a_shell_leaves_whole() -> None:
    way = _way("np.dot(x, y)")
    words = shlex.split(ways.explain(way, "none"))
    assert words[:4] == ["snakemake", "--cores", "1", "explain"]
    assert words[4] == "--config"
    assert words.count("--config") == 1
    assert {"expr=np.dot(x, y)", "backend=numpy-openblas", "deploy=none"} <= set(words)
    assert "--use-conda" in ways.measure(way, "conda")
    assert "--use-conda" not in ways.measure(way, "venv")
    counter = ways.explain_counter(way, None)
    assert counter
    assert "expr=x[::-1] @ y" in shlex.split(counter)


# ── Python's share ───────────────────────────────────────────────────────────────────────────────


def timed(results: Path, n: int, backend: str, overhead_ns: float | None, gflops: float) -> None:
    document = synthetic.run(
        synthetic.gemm(n), backend=backend, gflops=gflops, invocations=2, samples=4
    )
    document["invocations"][0]["call_overhead_ns"] = overhead_ns
    document["invocations"][1]["call_overhead_ns"] = None
    synthetic.write_run(results, document)


def test_pythons_share_is_judged_at_the_lessons_size_only(tmp_path: Path) -> None:
    timed(tmp_path, 4096, "numpy-openblas", 1000.0, gflops=90_000)  # 1.5 ms, as in the lesson
    timed(tmp_path, 8192, "numpy-openblas", 9000.0, gflops=90_000)
    timed(tmp_path, 4096, "torch-cpu", 3000.0, gflops=90_000)
    timed(tmp_path, 256, "jax-cpu", 5000.0, gflops=90_000)
    timed(tmp_path, 4096, "cblas-mkl", None, gflops=90_000)
    entries = {
        one["row"]["backend"]: one for one in overheads(View(collect(tmp_path), "2026-11-30"))
    }
    assert {backend: one["verdict"] for backend, one in entries.items()} == {
        "numpy-openblas": "agrees",
        "torch-cpu": "disagrees",
        "jax-cpu": "not known",
    }
    assert entries["numpy-openblas"]["row"]["n"] == 4096
    assert entries["numpy-openblas"]["percent"] == pytest.approx(100e-6 / 1.527e-3, rel=0.1)
    assert entries["numpy-openblas"]["of_claimed"] == pytest.approx(100e-6 / 1.5e-3)
    told = section(render(collect(tmp_path)), "lesson")
    assert "smaller product" in told
    assert "91.6 TFLOP/s" in told


def test_pythons_share_not_measured_says_so(tmp_path: Path) -> None:
    timed(tmp_path, 4096, "cblas-mkl", None, gflops=90_000)
    assert "Not measured here: no product" in section(render(collect(tmp_path)), "lesson")


def test_the_rule_reads_each_name_of_several() -> None:
    rule = next(one for one in document()["lines"] if one["id"] == "numpy-gemm")
    row = {"dtype": "float32", "routine_evidence": "traced", "routine_seen": "cblas_sgemm + sdot_"}
    assert lesson_check.verdict(rule, row) == "agrees"  # type: ignore[arg-type]
    row["routine_seen"] = "cblas_sgemm_batch + sdot_"
    assert lesson_check.verdict(rule, row) == "disagrees"  # type: ignore[arg-type]
