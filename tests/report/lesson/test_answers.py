"""Each answer follows from the cells: other cells, another answer. Rates here are invented."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gemmgrid.records.cell import Cell, Options
from gemmgrid.report.lesson import answers
from gemmgrid.report.lesson.answers import ANSWERS
from gemmgrid.report.read.collect import collect
from gemmgrid.report.read.rows import Row
from tests.report import synthetic

STUDIES = Path(__file__).parents[3] / "config/studies"


def rows(folder: Path, *runs: dict[str, Any]) -> list[Row]:
    for run in runs:
        synthetic.write_run(folder, run)
    return collect(folder).cells


def gemm(n: int, backend: str = "numpy-openblas", dtype: str = "float32", **more: Any) -> Any:
    options = {key: more.pop(key) for key in list(more) if key in Options.__annotations__}
    return synthetic.run(synthetic.gemm(n, dtype, **options), backend=backend, **more)


def told(study: str, found: list[Row]) -> str:
    return "\n".join(ANSWERS[study](found).lines())


@pytest.mark.parametrize("study", ANSWERS)
def test_every_answer_belongs_to_a_study_that_says_its_question(study: str) -> None:
    text = (STUDIES / f"{study}.yaml").read_text()
    assert yaml.safe_load(text)["study"] == study
    comment = text.split("\n\n")[0]
    assert "?" in comment
    assert f"--configfile config/studies/{study}.yaml" in comment


def test_exercise_names_the_routine_only_where_it_was_seen_and_marks_estimates(tmp_path) -> None:
    seen = synthetic.evidence("sgemm", "sgemm_kernel_ZEN")
    found = rows(
        tmp_path,
        gemm(4096, gflops=200.0, evidence=seen),
        gemm(1024, "mlx-cpu", gflops=4.0),
    )
    text = told("exercise", found)
    assert "cblas_sgemm (traced)" in text
    assert "numpy-openblas is fastest, " in text
    assert "mlx-cpu is estimated from 1024×1024×1024" in text
    assert "not seen" in text


def test_levels_compare_gemm_with_dot(tmp_path) -> None:
    dot = Cell("dot", "float32", (1_000_000,), 1)
    found = rows(tmp_path, synthetic.run(dot, gflops=5.0), gemm(512, gflops=100.0))
    assert "gemm computes 20 times as fast as dot" in told("levels", found)
    # 8 bytes an element pair and 2 operations: 5 GFLOP/s are 20 GB/s.
    assert "20.0" in told("levels", found)


def test_overhead_finds_the_size_below_each_share(tmp_path) -> None:
    found = rows(tmp_path, *(gemm(n, gflops=1.0) for n in (16, 64, 256, 1024)))
    for row in found:
        row.values["call_overhead_ns"] = 1000.0
    # 2 n³ ns a product: 8.2 µs, 524 µs, 34 ms, 2.1 s.
    line = next(line for line in told("overhead", found).splitlines() if "1.00" in line)
    assert line.split()[2:4] == ["64", "256"]


def test_small_calls_compare_a_stack_with_calls_of_their_own(tmp_path) -> None:
    found = rows(tmp_path, gemm(8, gflops=1.0), gemm(8, gflops=4.0, batch=64))
    assert "(b64) is 4.0 times quicker" in told("small-calls", found)
    found = rows(tmp_path / "other", gemm(8, gflops=4.0), gemm(8, gflops=1.0, batch=64))
    assert "(b64) is 4.0 times slower" in told("small-calls", found)


def test_direct_compares_the_routine_with_the_operator(tmp_path) -> None:
    copy = {"what": "copy", "count": 1, "bytes": 1 << 20, "explanation": "B was copied"}
    found = rows(
        tmp_path,
        gemm(64, gflops=50.0, call="operator"),
        gemm(64, "scipy-openblas", gflops=100.0, evidence={"status": "ok", "hidden": [copy]}),
    )
    next(row for row in found if row["backend"] == "scipy-openblas").values["adapter"] = "scipy"
    assert "takes 0.50 times A @ B's time" in told("direct", found)
    assert "copy 1" in told("direct", found)


def test_threads_say_how_many_worked(tmp_path) -> None:
    cells = [Cell("gemm", "float32", (256, 256, 256), count) for count in (1, 2)]
    found = rows(tmp_path, *(synthetic.run(cell, gflops=50.0 * cell.threads) for cell in cells))
    assert re.search(r"2 threads give (1\.99|2\.0)", told("threads", found))


def test_precision_tells_a_slower_and_a_narrower_dtype(tmp_path) -> None:
    found = rows(tmp_path, gemm(64, gflops=100.0), gemm(64, dtype="float16", gflops=1.0))
    found[0].values["effective_precision"] = "tf32"
    text = told("precision", found)
    assert "float16 is slower than float32, at 0.010 of its rate" in text
    assert " in tf32." in text


def test_shapes_name_the_cell_that_left_the_fast_path(tmp_path) -> None:
    copy = {"what": "copy", "count": 1, "bytes": 4096, "explanation": "A was copied"}
    found = rows(
        tmp_path,
        gemm(64, gflops=100.0),
        gemm(64, gflops=10.0, pad=3, evidence={"status": "ok", "hidden": [copy]}),
    )
    text = told("shapes", found)
    assert "leaves its fast path at gemm.float32.64x64x64.t1.ld3" in text
    assert re.search(r"(9\.9|10) % of its best rate", text)


def test_settings_name_the_best_only_beyond_the_intervals(tmp_path) -> None:
    base, variant = "torch-cpu", "torch-cpu.cbwr-avx2"
    slow, fast = (synthetic.evidence("sgemm", name) for name in ("generic", "avx2"))
    found = rows(
        tmp_path,
        gemm(512, base, gflops=100.0, evidence=slow),
        gemm(512, variant, gflops=200.0, evidence=fast),
    )
    assert re.search(r"cbwr-avx2 gives (1\.99|2\.0)", told("settings", found))
    assert "generic (sampled) → avx2 (sampled)" in told("settings", found)
    found = rows(
        tmp_path / "other",
        gemm(512, base, gflops=100.0, spread=0.2),
        gemm(512, variant, gflops=101.0, spread=0.2, seed=1),
    )
    assert "no setting is faster beyond the intervals" in told("settings", found)


def test_settings_measured_on_a_busy_machine_are_not_called_better(tmp_path) -> None:
    found = rows(
        tmp_path,
        gemm(512, "torch-cpu", gflops=100.0, flags=["loaded"]),
        gemm(512, "torch-cpu.cbwr-avx2", gflops=200.0),
    )
    assert "no setting is faster" in told("settings", found)


def test_an_answer_can_be_pasted(tmp_path) -> None:
    lines = ANSWERS["exercise"](rows(tmp_path, gemm(4096))).markdown().splitlines()
    assert lines[0].startswith("| backend | expression | routine |")
    assert set(lines[1]) <= set("|- ")
    assert lines[2].count("|") == lines[0].count("|")


def test_a_study_of_ones_own_has_no_answer(tmp_path) -> None:
    assert answers.answer(collect(tmp_path)) is None
