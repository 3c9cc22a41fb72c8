"""Before and after, sides that a user names, the table, the page and references."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from gemmgrid.plan.change import references
from gemmgrid.records.cell import PROTOCOL
from gemmgrid.report import tables
from gemmgrid.report.judge import check, compare, compare_command
from gemmgrid.report.page.page import render
from gemmgrid.report.page.view import View
from gemmgrid.report.read.collect import collect
from tests.report import synthetic

ROOT = Path(__file__).resolve().parents[3]
OLD = {"driver": "580.65.06", "cuda": "13.0", "power_cap_w": 700.0}
NEW = {"driver": "590.44.01", "cuda": "13.1", "power_cap_w": 700.0}
"""A recorded pair of a GPU's contexts, before and after an update of its driver."""


def write(
    results: Path,
    n: int,
    gflops: float = 100,
    *,
    device: dict[str, Any] | None = None,
    packages: dict[str, str] | None = None,
    day: int = 1,
    machine: str = "machine-a",
    backend: str = "numpy-openblas",
    rounds: int = 5,
    protocol: int = PROTOCOL,
    **fields: Any,
) -> None:
    context = {
        "host": {"kernel": "Linux 6.18"},
        "device": device,
        "backend": {"packages": packages or {"numpy": "2.4.6"}},
        "host_hash": "a" * 12,
        "device_hash": None,
        "backend_hash": "b" * 12,
    }
    document = synthetic.run(
        replace(synthetic.gemm(n), protocol=protocol),
        machine,
        backend,
        gflops=gflops,
        seed=n + day,
        rounds=rounds,
        context=context,
        ended_at=f"2026-11-{day:02}T12:00:04.000000Z",
        **fields,
    )
    synthetic.write_run(results, document)


def test_a_new_driver_before_and_after(tmp_path: Path) -> None:
    """The latest run against the latest one under the old driver; the direction is right."""
    for n, after in ((64, 150.0), (128, 66.0), (256, 100.0)):
        write(tmp_path, n, 50, device=OLD, day=1)
        write(tmp_path, n, 100, device=OLD, day=2, spread=0.003)
        write(tmp_path, n, after, device=NEW, day=3, spread=0.003)
    write(tmp_path, 512, device=NEW, day=3)
    (pair,) = compare.before_and_after(collect(tmp_path).runs)
    assert [one.verdict for one in pair.comparisons] == ["faster", "slower", "same"]
    assert [one.second["measured_at"][8:10] for one in pair.comparisons] == ["02"] * 3
    assert pair.common_changes == {
        "device.driver": ("580.65.06", "590.44.01"),
        "device.cuda": ("13.0", "13.1"),
    }
    assert pair.only_first == 1


def test_the_same_context_twice_is_no_change(tmp_path: Path) -> None:
    for day in (1, 2):
        write(tmp_path, 64, 100 * day, device=OLD, day=day)
    assert compare.before_and_after(collect(tmp_path).runs) == []


def test_a_failed_run_between_takes_no_part(tmp_path: Path) -> None:
    write(tmp_path, 64, 100, device=OLD, day=1)
    write(tmp_path, 64, device={"driver": "600"}, day=2, status="crashed", reason="SIGSEGV")
    write(tmp_path, 64, 150, device=NEW, day=3)
    (pair,) = compare.before_and_after(collect(tmp_path).runs)
    (one,) = pair.comparisons
    assert (one.verdict, one.second["measured_at"][8:10]) == ("faster", "01")


def test_a_cell_whose_latest_run_failed_is_not_compared(tmp_path: Path) -> None:
    for machine in ("machine-a", "machine-b"):
        for n in (64, 128):
            write(tmp_path, n, 100, device=OLD, day=1, machine=machine)
            write(tmp_path, n, 150, device=NEW, day=2, machine=machine)
    write(tmp_path, 64, device=NEW, day=3, status="crashed", reason="SIGSEGV")
    found = collect(tmp_path)
    before_after = compare.before_and_after(found.runs)
    assert [[one.first["n"] for one in pair.comparisons] for pair in before_after] == [
        [128],
        [64, 128],
    ]
    (pair,) = compare.machine_pairs(found.cells)
    assert ([one.first["n"] for one in pair.comparisons], pair.only_second) == ([128], 1)


def test_cells_with_wrong_threads_are_not_compared(tmp_path: Path) -> None:
    for day, device in ((1, OLD), (2, NEW)):
        for machine in ("machine-a", "machine-b"):
            write(tmp_path, 64, 100, device=device, day=day, machine=machine)
            flags = ["wrong-threads"] if machine == "machine-b" else []
            write(tmp_path, 128, 100, device=device, day=day, machine=machine, flags=flags)
    found = collect(tmp_path)
    (pair,) = compare.machine_pairs(found.cells)
    assert [one.first["n"] for one in pair.comparisons] == [64]
    counts = {pair.first: len(pair.comparisons) for pair in compare.before_and_after(found.runs)}
    assert counts == {"machine-a after": 2, "machine-b after": 1}


def test_protocols_are_not_mixed(tmp_path: Path) -> None:
    write(tmp_path, 64, 100, device=OLD, day=1, protocol=0)
    write(tmp_path, 64, 150, device=NEW, day=2)
    write(tmp_path, 64, 100, device=NEW, day=2, machine="machine-b", protocol=0)
    found = collect(tmp_path)
    assert compare.before_and_after(found.runs) == []
    assert compare.machine_pairs(found.cells) == []
    kept, changed = check.judge(
        found, [reference(64, 150, protocol=1), reference(64, 150, protocol=2)]
    )
    assert (kept.outcome, changed.outcome) == ("pass", "fail")
    assert "measured by protocol 1, the reference by 2" in changed.told


@pytest.mark.parametrize("rounds", [1, 2])
def test_few_rounds_say_what_firms_them_up(tmp_path: Path, rounds: int) -> None:
    results = tmp_path / "results"
    write(results, 64, 100, backend="torch-cpu")
    write(results, 64, 200, rounds=rounds)
    synthetic.write_plan(results, [("numpy-openblas", synthetic.gemm(64), "planned", None)])
    (pair,) = compare.backend_pairs(collect(results).cells)
    (one,) = pair.comparisons
    assert (one.verdict, one.needed) == ("insufficient", 5)
    (command,) = pair.firming
    assert command == (
        "snakemake --cores 1 --config 'sampling={rounds: 5}' "
        f"-f {results}/machine-a/numpy-openblas/gemm.float32.64x64x64.t1.jsonl "
        f"{results}/machine-a/torch-cpu/gemm.float32.64x64x64.t1.jsonl"
    )
    text = compare_command.text([pair])
    assert "insufficient (needs 5 rounds)" in text
    assert command in text
    assert "sampling={rounds: 5}" in render(View(collect(results), "2026-11-30T00:00:00Z"))


def test_of_two_machines_only_the_side_with_few_rounds_is_firmed_up(tmp_path: Path) -> None:
    write(tmp_path, 64, 100)
    write(tmp_path, 64, 100, rounds=1, machine="machine-b")
    (pair,) = compare.machine_pairs(collect(tmp_path).cells)
    (command,) = pair.firming
    assert command.endswith(
        f"-f {tmp_path}/machine-b/numpy-openblas/gemm.float32.64x64x64.t1.jsonl"
    )


def test_a_cell_after_a_change_is_firmed_up_alone(tmp_path: Path) -> None:
    write(tmp_path, 64, 100, device=OLD, day=1)
    write(tmp_path, 64, 100, device=NEW, day=2, rounds=1)
    (pair,) = compare.before_and_after(collect(tmp_path).runs)
    (command,) = pair.firming
    assert command.count(".jsonl") == 1


def test_every_machine_is_a_family_of_its_own(tmp_path: Path) -> None:
    for machine in ("machine-a", "machine-b"):
        write(tmp_path, 64, 100, device=OLD, day=1, machine=machine)
        write(tmp_path, 64, 200, device=NEW, day=2, machine=machine)
    pairs = compare.before_and_after(collect(tmp_path).runs)
    assert [pair.first for pair in pairs] == ["machine-a after", "machine-b after"]


@pytest.fixture
def two(tmp_path: Path) -> Path:
    for n in (64, 128):
        write(tmp_path, n, 100, day=1)
        write(tmp_path, n, 200, day=5, packages={"numpy": "2.4.7"})
        write(tmp_path, n, 100, day=5, backend="torch-cpu")
        write(tmp_path, n, 50, day=5, machine="machine-b")
    return tmp_path


@pytest.mark.parametrize(
    ("first", "second", "kind", "ratio"),
    [
        (None, None, "before-after", 2.0),
        ("machine-a", "machine-b", "machines", 4.0),
        ("torch-cpu", "numpy-openblas", "backends", 0.5),
        ("machine-a/torch-cpu", "machine-b/numpy-openblas", "places", 2.0),
        ("2026-11-05", "2026-11-01", "moments", 2.0),
        ("now", "2026-11-02", "moments", 2.0),
    ],
)
def test_sides(two: Path, first: str | None, second: str | None, kind: str, ratio: float) -> None:
    (pair,) = compare_command.pairs(collect(two), first, second)
    assert pair.kind == kind
    assert len(pair.comparisons) == 2
    for one in pair.comparisons:
        assert one.ratio == pytest.approx(ratio, rel=0.05)
    told = compare_command.text([pair])
    assert ("faster" if ratio > 1 else "slower") in told
    assert "gemm float32" in told


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        ("machine-a", None, "one side is missing"),
        ("machine-c", "machine-a", "Did you mean 'machine-"),
        ("machine-a", "torch-cpu", "cannot be compared"),
        ("now", "now", "cannot be compared"),
        ("2026", "now", "no machine, backend"),
    ],
)
def test_wrong_sides_say_what_is_allowed(
    two: Path, first: str, second: str | None, told: str
) -> None:
    with pytest.raises(compare_command.NoSuchSideError, match=told):
        compare_command.pairs(collect(two), first, second)


def test_the_table_keeps_every_comparison(two: Path) -> None:
    tables.write(collect(two))
    csv = pd.read_csv(two / "tables/comparisons.csv")
    assert list(csv.columns) == list(tables.COMPARISONS)
    assert csv["kind"].value_counts().to_dict() == {"before-after": 2, "machines": 2, "backends": 2}
    before = csv[csv["kind"] == "before-after"]
    assert (before["changes"] == "package numpy: 2.4.6 → 2.4.7").all()
    assert (before["verdict"] == "faster").all()
    assert (before["ratio_low"] < before["ratio"]).all()


def test_the_page_shows_all_three(two: Path) -> None:
    page = render(View(collect(two), "2026-11-30T00:00:00.000000Z"))
    assert "machine-a after against before" in page
    assert "package numpy: 2.4.6 → 2.4.7" in page
    assert "machine-a against machine-b" in page
    assert "numpy-openblas against torch-cpu" in page


def test_a_context_from_a_stranger_is_only_text(tmp_path: Path) -> None:
    write(tmp_path, 64, 100, device=OLD, day=1)
    write(tmp_path, 64, 100, device=OLD | {"driver": synthetic.HOSTILE}, day=2)
    page = render(View(collect(tmp_path), "2026-11-30T00:00:00.000000Z"))
    assert synthetic.HOSTILE not in page
    assert "<img src=x" not in page


def reference(n: int, value: float, **more: Any) -> dict[str, Any]:
    cell = synthetic.gemm(n).name
    band = {"value": value, "lower": -0.1, "upper": 0.1, "entry": "line 1"}
    return {"machine": "machine-a", "backend": "numpy-openblas", "cell": cell, **band, **more}


@pytest.mark.parametrize(
    ("value", "more", "outcome"),
    [
        (100.0, {}, "pass"),
        (150.0, {}, "fail"),
        (50.0, {}, "fail"),
        (50.0, {"upper": None}, "pass"),
        (150.0, {"lower": None}, "pass"),
        (112.0, {"lower": -0.1}, "warn"),
        (100.0, {"lower": -0.01, "upper": None}, "undecided"),
        (1e-6, {"lower": -0.01, "upper": None}, "pass"),
        (100.0, {"lower": None, "upper": 0.01}, "undecided"),
        (150.0, {"lower": -0.01, "upper": 0.01}, "fail"),
        (104.0, {"lower": -0.01, "upper": 0.01}, "undecided"),
    ],
)
def test_a_reference_is_kept_or_not(
    tmp_path: Path, value: float, more: dict[str, Any], outcome: str
) -> None:
    write(tmp_path, 64, 100, spread=0.03)
    collection = collect(tmp_path)
    # The same distance from the band whatever the drawn rate is.
    wanted = reference(64, value * collection.cells[0]["gflops"] / 100, **more)
    (judged,) = check.judge(collection, [wanted])
    assert judged.outcome == outcome, judged.told


def test_one_round_decides_nothing(tmp_path: Path) -> None:
    write(tmp_path, 64, 100, rounds=1)
    write(tmp_path, 128, 100, spread=0.003)
    undecided, kept = check.judge(collect(tmp_path), [reference(64, 100), reference(128, 100)])
    assert (undecided.outcome, kept.outcome) == ("undecided", "pass")
    assert (check.exit_status([kept]), check.exit_status([kept, undecided])) == (0, 3)
    told = check.text([undecided, kept])
    assert "check: 2 references: 1 kept, 0 in doubt, 1 undecided, 0 failed" in told
    assert "1 round, and 3 are needed for a verdict: snakemake --cores 1" in told
    (failed,) = check.judge(collect(tmp_path), [reference(128, 200)])
    assert check.exit_status([undecided, failed, kept]) == 1


def test_another_state_decides_nothing_and_becomes_no_reference(tmp_path: Path) -> None:
    write(tmp_path, 64, 100, flags=["other-state"])
    write(tmp_path, 128, 100)
    collection = collect(tmp_path)
    (judged,) = check.judge(collection, [reference(64, 200)])
    assert (judged.outcome, "measure it again" in judged.told) == ("undecided", True)
    told = check.write(collection, tmp_path / "references.yaml", -0.1, 0.25, False)
    assert "1 reference written; 1 cell left out" in told


def test_a_reference_does_not_judge_wrong_threads(tmp_path: Path) -> None:
    write(tmp_path, 64, 100, flags=["wrong-threads"])
    (judged,) = check.judge(collect(tmp_path), [reference(64, 100)])
    assert (judged.outcome, judged.told) == ("fail", "wrong-threads: 1 threads worked")


def test_a_pattern_of_machines_stands_for_those_that_measured_the_cell(tmp_path: Path) -> None:
    results = tmp_path / "results"
    for machine in ("machine-a", "machine-b", "other"):
        write(results, 64, 100, machine=machine)
    write(results, 128, 100)
    (tmp_path / "config").mkdir()
    shutil.copy(ROOT / "config/backends.yaml", tmp_path / "config")
    cell = f"numpy-openblas/{synthetic.gemm(64).name}"
    (tmp_path / "config/references.yaml").write_text(
        f'- {{machine: "*", cell: {cell}, value: 100}}\n'
        f'- {{machine: "machine-*", cell: {cell}, value: 100}}\n'
        f'- {{machine: "none-*", cell: {cell}, value: 100}}\n',
        encoding="utf-8",
    )
    found = references.resolve(tmp_path, results)
    assert [one["machine"] for one in found] == [
        *("machine-a", "machine-b", "other", "machine-a", "machine-b"),
        "none-*",
    ]
    *kept, lost = check.judge(collect(results), found)
    assert {one.outcome for one in kept} == {"pass"}
    assert (lost.outcome, cell in lost.told) == ("fail", True)


def test_what_failed_or_is_missing_fails_the_gate(tmp_path: Path) -> None:
    write(tmp_path, 64, 100, day=1)
    write(tmp_path, 64, day=2, status="crashed", reason="SIGSEGV")
    found = check.judge(
        collect(tmp_path),
        [
            reference(64, 100),
            reference(128, 100),
            reference(1, 1) | {"backend": None, "cell": None, "select": "n=7"},
        ],
    )
    assert [one.outcome for one in found] == ["fail"] * 3
    assert [
        word in one.told
        for word, one in zip(("SIGSEGV", "not measured", "n=7"), found, strict=True)
    ] == [True] * 3


def test_references_from_the_present_state_hold(tmp_path: Path) -> None:
    results = tmp_path / "results"
    for n in (64, 128):
        write(results, n, 100)
    write(results, 256, status="crashed", reason="SIGSEGV")
    write(results, 512, flags=["wrong-threads"])
    (tmp_path / "config").mkdir()
    shutil.copy(ROOT / "config/backends.yaml", tmp_path / "config")
    file = tmp_path / "config/references.yaml"
    assert "2 references written" in check.write(collect(results), file, -0.1, 0.25, False)
    resolved = references.resolve(tmp_path, results)
    assert {one.outcome for one in check.judge(collect(results), resolved)} == {"pass"}
    with pytest.raises(check.ReferencesExistError, match="replace=true"):
        check.write(collect(results), file, -0.1, 0.25, False)
    assert "2 references written" in check.write(collect(results), file, -0.1, 0.25, True)
