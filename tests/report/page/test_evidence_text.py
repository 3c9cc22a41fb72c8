"""A run's evidence as docs/evidence.md describes it, in the tables and in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from gemmgrid.report import tables
from gemmgrid.report.page import evidence_text
from gemmgrid.report.read.collect import collect
from gemmgrid.report.read.rows import Row
from tests.report import synthetic
from tests.report.page.test_page import render, section

BLAS = "/env/lib/OpenBLAS.so"
ROUTINE = {
    "evidence": "traced",
    "symbol": "scipy_cblas_sgemm64_",
    "routine": "sgemm",
    "library": BLAS,
    "caller": "/env/_multiarray_umath.so",
    "args": {"order": "row", "m": 64, "n": 64, "k": 64},
    "count": 1,
    "reason": None,
    "source": None,
}
KERNEL = {
    "evidence": "traced",
    "name": "sgemm_kernel_SKYLAKEX",
    "core": "SkylakeX",
    "count": 90,
    "share": None,
    "samples": None,
    "library": BLAS,
    "reason": None,
    "source": None,
}
WHOLE: dict[str, Any] = {
    "status": "ok",
    "reason": None,
    "cost_s": 0.08,
    "routines": [ROUTINE],
    "kernels": [KERNEL],
    "hidden": [],
    "no_blas": None,
    "inconsistent": None,
    "slots_watched": 22,
    "problems": {},
}


def rows(results: Path, *evidences: dict[str, Any], **fields: Any) -> list[Row]:
    """A cell for each piece of evidence, 64 and up; read without a complaint."""
    for index, evidence in enumerate(evidences, start=1):
        document = synthetic.run(synthetic.gemm(64 * index), evidence=evidence, **fields)
        synthetic.write_run(results, document)
    synthetic.write_machine(results, synthetic.Machine("machine-a"))
    collection = collect(results)
    assert collection.problems == []
    return collection.cells


def test_the_tables_have_what_ran(tmp_path: Path) -> None:
    rows(tmp_path, WHOLE)
    tables.write(collect(tmp_path))
    for name in ("cells", "runs"):
        cell = pd.read_csv(tmp_path / "tables" / f"{name}.csv").iloc[0]
        assert cell["expression"] == "np.matmul(A, B, out=C)"
        assert (cell["routine_seen"], cell["routine_evidence"]) == (ROUTINE["symbol"], "traced")
        assert (cell["kernel_seen"], cell["kernel_evidence"]) == (KERNEL["name"], "traced")
        assert cell["library_file"] == BLAS


def test_the_library_that_ran_is_named_with_its_file(tmp_path: Path) -> None:
    assert evidence_text.library(rows(tmp_path, WHOLE)[0]) == "OpenBLAS 0.3.31 in OpenBLAS.so"


def test_a_library_that_was_only_loaded_is_not_credited(tmp_path: Path) -> None:
    logged = {**ROUTINE, "evidence": "logged", "symbol": "matmul", "library": "oneDNN"}
    row = rows(tmp_path, {**WHOLE, "routines": [logged], "kernels": []})[0]
    assert evidence_text.library(row) == "oneDNN; OpenBLAS 0.3.31 was loaded, and not seen to run"


def test_documented_runs_nowhere(tmp_path: Path) -> None:
    said = {**ROUTINE, "evidence": "documented"}
    row = rows(tmp_path, {**WHOLE, "routines": [said], "kernels": []})[0]
    assert evidence_text.ran_in(row) == []
    assert evidence_text.library(row) == "OpenBLAS 0.3.31 (loaded)"


def test_hidden_work_with_and_without_counts(tmp_path: Path) -> None:
    copies = {"what": "operand-copy", "count": 2, "bytes": 2 << 20, "explanation": "both copied"}
    more = {**copies, "count": 4, "bytes": 8 << 20}
    upcast = {"what": "upcast", "count": None, "bytes": None, "explanation": "each is converted"}
    syrk = {"what": "syrk", "count": 1, "bytes": None, "explanation": "one triangle"}
    found = rows(tmp_path, {**WHOLE, "hidden": [copies, upcast, syrk]}, {**WHOLE, "hidden": [more]})
    assert evidence_text.hidden(sorted(found, key=lambda row: row["n"])) == [
        "operand-copy: both copied (2–4 times, 2 MiB to 8 MiB)",
        "upcast: each is converted",
        "syrk: one triangle (once)",
    ]


def test_samples_of_several_cells(tmp_path: Path) -> None:
    sampled = {**KERNEL, "evidence": "sampled", "share": 0.93, "samples": 210}
    other = {**sampled, "share": 0.97, "samples": 293}
    found = rows(tmp_path, {**WHOLE, "kernels": [sampled]}, {**WHOLE, "kernels": [other]}, WHOLE)
    assert evidence_text.samples(found) == "93–97 % of 210–293 samples"
    assert (
        evidence_text.samples([row for row in found if row["kernel_evidence"] == "traced"]) is None
    )


def test_problems_are_told_once(tmp_path: Path) -> None:
    why = "perf_event_paranoid is 3"
    unknown = {**KERNEL, "evidence": "unknown", "name": None, "reason": f"no samples: {why}"}
    problems = {"sample": why, "/env/lib/libx.so": "stripped"}
    found = rows(tmp_path, {**WHOLE, "kernels": [unknown], "problems": problems})
    assert evidence_text.doubts(found) == [f"kernel: no samples: {why}", "libx.so: stripped"]
    dispatch = section(render(collect(tmp_path)), "dispatch")
    assert "libx.so: stripped" in dispatch
    assert 'data-mark="unknown"' in dispatch


def test_reasons_that_differ_in_numbers_are_told_once(tmp_path: Path) -> None:
    left = [{**WHOLE, "reason": f"the product still ran after {s} s"} for s in (0.2, 0.3)]
    assert len(evidence_text.doubts(rows(tmp_path, *left))) == 1


def test_evidence_without_an_expression_is_shown_too(tmp_path: Path) -> None:
    """A timing that crashed before its first call has no expression; what ran is known anyhow."""
    failed = {"status": "crashed", "reason": "SIGSEGV", "expression": None}
    rows(tmp_path, WHOLE, **failed)
    dispatch = section(render(collect(tmp_path)), "dispatch")
    assert f"<code>{ROUTINE['symbol']}</code>" in dispatch
    assert f"<code>{KERNEL['name']}</code>" in dispatch


def test_a_documented_kernel_is_expected(tmp_path: Path) -> None:
    said = {**KERNEL, "evidence": "documented", "name": "steel_gemm_fused_*"}
    rows(tmp_path, {**WHOLE, "kernels": [said]})
    html = render(collect(tmp_path))
    for name in ("dispatch", "lesson", "exercise"):
        assert 'steel_gemm_fused_*</code> <span class="mark" data-mark="documented">' in section(
            html, name
        )
        assert "documented: expected, not seen" in section(html, name)
