"""Runs in a machine's folder that it did not make: apart in everything, and loud."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from gemmgrid.report import tables
from gemmgrid.report.command import main
from gemmgrid.report.draw.panels import size_sweeps, thread_scalings
from gemmgrid.report.judge import compare, compare_command
from gemmgrid.report.page.sections import SECTIONS
from gemmgrid.report.page.view import View
from gemmgrid.report.read.collect import Collection, collect
from gemmgrid.report.read.coverage import coverage
from gemmgrid.report.read.fields import Fields
from gemmgrid.report.read.foreign_runs import name_of
from gemmgrid.report.terminal.summary import summary
from tests.report import synthetic
from tests.report.page.test_page import Outline, data_of, render, section
from tests.report.synthetic import HOSTILE

NAME = "icelake~7f3a2c"
CELL = synthetic.gemm(64)
PROMISED = "64 CPUs are promised, 2 may be used"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """results/ of two machines and of a node that is neither; not to be changed."""
    results = tmp_path_factory.mktemp("cluster") / "results"
    synthetic.write_cluster(results)
    return results


@pytest.fixture(scope="module")
def found(cluster: Path) -> Collection:
    return collect(cluster)


@pytest.fixture(scope="module")
def without(cluster: Path, tmp_path_factory: pytest.TempPathFactory) -> Collection:
    """The same results as if the other node had never run anything."""
    results = tmp_path_factory.mktemp("without") / "results"
    for path in cluster.glob("*/*/*.jsonl"):
        for line in path.read_text().splitlines():
            document = json.loads(line)
            if "other-machine" not in document["flags"]:
                synthetic.write_run(results, document)
    for path in cluster.glob("*/machine.json"):
        (results / path.parent.name / path.name).write_bytes(path.read_bytes())
    return collect(results)


def fits(told: str) -> bool:
    """Whether every line but those of commands has at most 100 columns."""
    commands = ("  snakemake", "    /")
    return all(len(line) <= 100 or line.startswith(commands) for line in told.splitlines())


def states(collection: Collection, machine: str = "icelake") -> dict[tuple[str, int], str]:
    return {
        (row["backend"], row["n"]): row["status"]
        for row in collection.cells
        if row["machine"] == machine
    }


@pytest.mark.parametrize(
    ("run", "name"),
    [
        ({"host": {"id": "7f3a2c9b01de"}}, NAME),
        ({"host": {"id": "7f3a2c9b01de"}, "gpu": {"id": "91abcdef"}}, f"{NAME}.91ab"),
        ({"host": {"id": "7f3a2c9b01de"}, "gpu": None}, NAME),
        ({"host": {"id": "../../ETC/passwd"}}, "icelake~etcpas"),
        ({"host": {"id": 7}}, "icelake~unknown"),
        ({"host": None}, "icelake~unknown"),
    ],
)
def test_the_name(run: dict[str, Any], name: str) -> None:
    assert name_of("icelake", Fields(run)) == name


def test_the_machines_own_run_stands_though_a_later_one_was_made_elsewhere(
    found: Collection,
) -> None:
    (row,) = [
        row
        for row in found.cells
        if row.key[:2] == ("icelake", "numpy-openblas") and row["n"] == 128
    ]
    own = synthetic.curve(synthetic.Machine("icelake"), "numpy-openblas", synthetic.gemm(128))
    assert row["gflops"] == pytest.approx(own, rel=0.05)
    assert (row["status"], row["apart_from"], row.flags) == ("ok", None, [])


def test_a_cell_that_only_others_ran_is_missing_and_says_where_it_was_run(
    found: Collection,
) -> None:
    assert states(found) == {
        **{("numpy-openblas", n): "ok" for n in (64, 128, 256)},
        **{("cblas-mkl", n): "ok" for n in (64, 128, 256)},
        ("numpy-openblas", 512): "missing",
        ("numpy-openblas", 1024): "missing",
    }
    for row in coverage(found).incomplete:
        assert row["reason"] == (
            f"run only on {NAME} (node mil1, partition short): {PROMISED}; CPU Invented Milan, not "
            "Invented 2-core; 64 cores, not 2"
        )
        assert row["retry"] == f"snakemake --cores 1 -f {row['path']}"
        assert row["gflops"] is None


def test_what_was_made_elsewhere_has_rows_of_its_own_also_where_it_failed(
    found: Collection,
) -> None:
    (one,) = found.foreign
    assert (one.name, one.machine, one.place) == (NAME, "icelake", "node mil1, partition short")
    assert [(row["n"], row["status"]) for row in one.cells] == [
        (1024, "crashed"),
        (128, "ok"),
        (512, "ok"),
    ]
    assert {row["machine"] for row in (*one.cells, *one.runs)} == {NAME}
    rates = {row["n"]: row["gflops"] for row in one.cells}
    assert rates[128] == pytest.approx(999, rel=0.05)
    assert rates[512] == pytest.approx(998, rel=0.05)
    assert rates[1024] is None
    assert all(row["peak_share"] is None for row in one.cells)
    assert one.differences == [
        PROMISED,
        "CPU Invented Milan, not Invented 2-core",
        "64 cores, not 2",
    ]


def test_nothing_that_compares_averages_or_draws_sees_it(
    found: Collection, without: Collection
) -> None:
    assert list(tables.comparison_rows(tables.all_pairs(found))) == list(
        tables.comparison_rows(tables.all_pairs(without))
    )
    assert tables.all_pairs(found)
    for pair, same in zip(
        compare.backend_pairs(found.cells), compare.backend_pairs(without.cells), strict=True
    ):
        assert compare.summaries(pair.comparisons) == compare.summaries(same.comparisons)
    measured = View(found, "").measured
    assert [row.times_s for row in measured] == [row.times_s for row in View(without, "").measured]
    for panels in (size_sweeps, thread_scalings):
        drawn = [series for panel in panels(measured) for series in panel.lines]
        assert NAME not in {machine for machine, _ in drawn}
    assert View(found, "").palette.machines == ["icelake", "milan"]


def test_two_hosts_are_two_names_and_a_second_run_is_the_latest(tmp_path: Path) -> None:
    synthetic.write_run(tmp_path, synthetic.stranger(CELL, gflops=10))
    synthetic.write_run(tmp_path, synthetic.stranger(CELL, gflops=20, host={"id": "aa" * 6}))
    synthetic.write_run(tmp_path, synthetic.stranger(CELL, gflops=30, seed=3))
    assert [(one.name, len(one.runs)) for one in collect(tmp_path).foreign] == [
        (NAME, 2),
        ("icelake~aaaaaa", 1),
    ]
    rates = [row["gflops"] for one in collect(tmp_path).foreign for row in one.cells]
    assert rates == [pytest.approx(30, rel=0.1), pytest.approx(20, rel=0.1)]


def test_without_a_promise_it_says_that_the_hardware_is_other(tmp_path: Path) -> None:
    synthetic.write_machine(tmp_path, synthetic.Machine("icelake", gpu="Invented H1"))
    gpu = {"id": "91ab", "name": "Invented A1", "driver": "1"}
    synthetic.write_run(tmp_path, synthetic.stranger(CELL, promise=None, host={"id": "x"}, gpu=gpu))
    rounds = {"settings": {"rounds": 3}, "host": {"id": "y"}}
    synthetic.write_run(tmp_path, synthetic.stranger(CELL, promise=None, **rounds))
    assert [one.differences for one in collect(tmp_path).foreign] == [
        ["other hardware than machine.json describes", "GPU Invented A1, not Invented H1"],
        ["some or all of its rounds ran on other hardware than machine.json describes"],
    ]


def test_a_folder_that_holds_nothing_else(tmp_path: Path) -> None:
    synthetic.write_run(tmp_path, synthetic.stranger(CELL, status="env-failed", reason="no GPU"))
    collection = collect(tmp_path)
    assert collection.cells == []
    Outline(render(collection))
    tables.write(collection)
    assert "env-failed  numpy-openblas/" in summary(collect(tmp_path), tmp_path / "x.html")


def test_the_gate_stays_shut(cluster: Path, tmp_path: Path, capsys: Any) -> None:
    marker = tmp_path / "marker"
    assert main(["gate", "--results", str(cluster), "--marker", str(marker)]) == 1
    assert capsys.readouterr().err == (
        "incomplete: 2 cells missing: numpy-openblas/gemm.float32.512x512x512.t1 and 1 more\n"
    )
    assert not marker.exists()


def test_tables(found: Collection, cluster: Path) -> None:
    tables.write(found)
    cells = pd.read_parquet(cluster / "tables/cells.parquet")
    runs = pd.read_parquet(cluster / "tables/runs.parquet")
    apart = cells[cells["apart_from"].notna()]
    assert set(apart["machine"]) == {NAME}
    assert set(apart["apart_from"]) == {"icelake"}
    assert apart["difference"].str.startswith(PROMISED).all()
    assert apart["flags"].str.contains("other-machine").all()
    assert not cells[cells["machine"] == "icelake"]["flags"].str.contains("other").any()
    assert not cells.duplicated(["machine", "backend", "cell"]).any()
    assert (len(runs), int((runs["machine"] == NAME).sum())) == (19, 3)
    assert set(runs["recorded_machine"]) == {"icelake", "milan"}
    strange = runs[runs["machine"] == NAME]
    assert set(strange["slurm_node"]) == {"mil1"}
    assert not strange["exclusive"].any()
    assert runs[runs["machine"] == "icelake"]["exclusive"].all()
    assert set(runs["slurm_partition"]) == {"short"}
    assert set(runs["slurm_job_id"]) == {"40123"}
    csv = pd.read_csv(cluster / "tables/runs.csv", dtype="string")
    assert list(csv["exclusive"]) == ["True" if value else "False" for value in runs["exclusive"]]
    assert NAME in set(csv["machine"])


def test_outside_slurm_the_columns_are_null(collection: Collection) -> None:
    columns = ["slurm_node", "slurm_partition", "slurm_job_id", "exclusive"]
    assert set(columns) < set(tables.RUNS)
    table = tables.frame((row.values for row in collection.runs), tables.RUNS)
    assert table[[*columns, "apart_from", "difference"]].isna().all(axis=None)


@pytest.mark.parametrize(
    ("exclusive", "text"), [(True, "exclusive"), (False, "shared"), (None, "not known")]
)
def test_job_in_a_line(tmp_path: Path, exclusive: bool | None, text: str) -> None:
    job = synthetic.slurm(exclusive=exclusive)
    synthetic.write_run(tmp_path, synthetic.run(CELL, slurm=job))
    (row,) = collect(tmp_path).runs
    assert row["exclusive"] is exclusive
    told = "node ice1, partition short, features icelake avx512, job 40123, "
    assert row["slurm"].startswith(told)
    assert row["slurm"].removeprefix(told).endswith(text)


def test_the_page_is_loud_and_keeps_apart(found: Collection) -> None:
    html = render(found)
    outline = Outline(html)
    overview = section(html, "overview")
    assert overview.index('class="alarm"') < overview.index('class="cards"')
    assert f"<b>{NAME}</b>, 3 cells on node mil1, partition short, not icelake: {PROMISED}" in (
        overview
    )
    apart = section(html, "foreign_runs")
    assert f"{NAME} <small>in the folder of icelake; 2 of 3 cells measured</small>" in apart
    assert "the process died of SIGILL while sampling" in apart
    assert "<dt>node held</dt><dd>shared</dd>" in apart
    assert "<dt>host id</dt><dd>7f3a2c9b01de</dd>" in apart
    for name in SECTIONS:
        if name not in ("foreign_runs", "table", "unmeasured"):
            assert NAME not in section(html, name), name
    assert '<a href="#foreign_runs">3 cells apart</a>' in section(html, "machines")
    assert f"run only on {NAME}" in section(html, "unmeasured")
    data = data_of(html)
    rows = [dict(zip(data["keys"], row, strict=True)) for row in data["rows"]]
    assert sum(row["machine"] == NAME for row in rows) == 3
    assert len(rows) == len(found.cells) + 3
    assert {row["difference"] for row in rows if row["machine"] == "icelake"} == {None}
    assert {tag for tag, _ in outline.tags} >= {"article"}


def test_machines_say_where_slurm_ran_them(found: Collection) -> None:
    machines = section(render(found), "machines")
    assert "<td>ice1</td><td>mil2</td>" in machines
    assert "<td>exclusive</td><td>exclusive</td>" in machines


def test_a_machine_outside_slurm_says_so_beside_one_inside(tmp_path: Path) -> None:
    synthetic.write_run(tmp_path, synthetic.run(CELL, "laptop"))
    job = synthetic.slurm()
    synthetic.write_run(tmp_path, synthetic.run(CELL, "icelake", slurm=job))
    shared = synthetic.slurm("ice2", exclusive=False)
    synthetic.write_run(tmp_path, synthetic.run(synthetic.gemm(32), "icelake", slurm=shared))
    machines = section(render(collect(tmp_path)), "machines")
    assert "<td>ice2, ice1</td><td>outside SLURM</td>" in machines
    assert "<td>shared (1 of 2 cells), exclusive (1 of 2 cells)</td>" in machines


def test_the_summary_is_loud(cluster: Path) -> None:
    told = summary(collect(cluster), Path("reports/none.html"))
    lines = told.splitlines()
    place = "(node mil1, partition short)"
    head = lines.index(f"OTHER MACHINE: runs of 3 cells meant for icelake are of {NAME} {place}:")
    assert lines[head + 1] == f"  - {PROMISED}"
    assert any(line.startswith("  ok  numpy-openblas/gemm.float32.512") for line in lines[head:])
    assert any("SIGILL" in line for line in lines[head:])
    assert fits(told)
    table = told[: told.index("not measured, and the command")]
    assert "99" not in re.sub(r"gemm\S+", "", table)


def test_the_summary_of_another_study_does_not_repeat_it(tmp_path: Path) -> None:
    synthetic.write_cluster(tmp_path)
    synthetic.write_plan(tmp_path, [("numpy-openblas", CELL, "planned", None)], "milan")
    assert "OTHER MACHINE" not in summary(collect(tmp_path), Path("reports/none.html"))


def test_a_study_of_several_machines_names_them(tmp_path: Path, capsys: Any) -> None:
    synthetic.write_cluster(tmp_path)
    plan = tmp_path / ".plan/plan.jsonl"
    header, *lines = map(json.loads, plan.read_text().splitlines())
    header["machine"] = "icelake+milan"
    lines += [{**line, "machine": "milan"} for line in lines]
    plan.write_text("".join(json.dumps(line) + "\n" for line in [header, *lines]))
    told = summary(collect(tmp_path), Path("reports/none.html"))
    assert re.search(r"^milan/numpy-openblas +gemm.float32.64x64x64.t1 ", told, re.MULTILINE)
    assert fits(told)
    assert main(["gate", "--results", str(tmp_path), "--marker", str(tmp_path / "m")]) == 1
    assert "2 cells missing: icelake/numpy-openblas/gemm" in capsys.readouterr().err
    overview = section(render(collect(tmp_path)), "overview")
    assert "10 cells planned on icelake and milan" in overview


def test_it_is_no_side_of_a_comparison(found: Collection) -> None:
    with pytest.raises(compare_command.NoSuchSideError, match="shown apart and not compared"):
        compare_command.pairs(found, "icelake", NAME)
    day = compare_command.pairs(found, "now", "2026-11-30")
    assert {one.first["machine"] for one in day[0].comparisons} == {"icelake", "milan"}


def test_what_strangers_write_about_it_stays_text(tmp_path: Path) -> None:
    documents = [
        synthetic.stranger(
            synthetic.gemm(64),
            slurm=dict.fromkeys(synthetic.slurm(), HOSTILE) | {"features": [HOSTILE]},
            promise={"broken": [HOSTILE]},
            host={"id": HOSTILE, "model": HOSTILE},
            flags=["other-machine", HOSTILE],
        ),
        synthetic.stranger(
            synthetic.gemm(128), slurm=[1], promise="no", host=7, gpu="x", settings=3
        ),
        synthetic.stranger(synthetic.gemm(256), slurm={"node": {}, "features": 3}, promise=[]),
    ]
    for document in documents:
        synthetic.write_run(tmp_path, document)
    collection = collect(tmp_path)
    assert len(collection.all_cells) == 3
    problems = " ".join(problem.problem for problem in collection.problems)
    for told in (
        "slurm.exclusive is '</script>",
        "promise is 'no', not an object",
        "slurm is a list, not an object",
        "slurm.features is 3, not a list",
    ):
        assert told in problems
    html = render(collection)
    outline = Outline(html)
    assert sum(tag == "script" for tag, _ in outline.tags) == 2
    assert not any(tag in ("img", "iframe", "object") for tag, _ in outline.tags)
    assert not set("\x1b") & set(summary(collect(tmp_path), tmp_path / "x.html"))
    tables.write(collection)
