"""Reading a whole results folder: planned cells without runs, and files that cannot be used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gemmgrid.records.run import STATUSES
from gemmgrid.report.read.collect import Collection, collect
from gemmgrid.report.read.rows import RATES
from tests.report import synthetic

CELL = synthetic.gemm(64)


def problems_of(collection: Collection) -> list[str]:
    return [f"{Path(p.file).name}:{p.line}: {p.problem}" for p in collection.problems]


def test_every_status_is_there(collection: Collection) -> None:
    assert {row["status"] for row in collection.cells} == {*STATUSES, "missing"}
    assert collection.problems == []


def test_planned_cells_without_a_run_are_missing(collection: Collection) -> None:
    missing = [row for row in collection.cells if row["status"] == "missing"]
    assert len(missing) == 3
    assert all(row["reason"] == "no run yet" and row["retry"] for row in missing)


def test_what_the_plan_leaves_out_has_its_reason_and_no_command(collection: Collection) -> None:
    (row,) = [row for row in collection.cells if row["status"] == "excluded"]
    assert row["reason"] == "exclude: n above 2048 for jax-cpu"
    assert row["retry"] is None


def test_other_machines_need_no_plan(collection: Collection) -> None:
    others = [row for row in collection.cells if row["machine"] == "machine-b"]
    assert others
    assert not {row.key for row in others} & set(collection.planned)


def test_the_latest_run_is_the_cells_row_and_the_rest_is_history(tmp_path: Path) -> None:
    synthetic.write_run(tmp_path, synthetic.run(CELL, gflops=10))
    synthetic.write_run(tmp_path, synthetic.run(CELL, status="crashed", reason="SIGSEGV"))
    found = collect(tmp_path)
    assert [row["status"] for row in found.runs] == ["ok", "crashed"]
    (row,) = found.cells
    assert (row["status"], row["reason"]) == ("crashed", "SIGSEGV")
    assert row["retry"].endswith(f"-f {row['path']}")


def test_a_failed_rerun_leaves_the_last_good_value_in_its_column_only(tmp_path: Path) -> None:
    early, later = "2026-11-01T12:00:00.000000Z", "2026-11-20T12:00:00.000000Z"
    synthetic.write_run(tmp_path, synthetic.run(CELL, gflops=10, ended_at=early, flags=["loaded"]))
    synthetic.write_run(
        tmp_path, synthetic.run(CELL, status="crashed", reason="SIGSEGV", ended_at=later)
    )
    (row,) = collect(tmp_path).cells
    assert row["last_good_gflops"] == pytest.approx(10, rel=0.1)
    assert (row["last_good_at"], row["measured_at"]) == (early, later)
    assert all(row[column] is None for column in RATES)
    assert (row.measured, row.flags) == (False, [])


def test_a_good_rerun_ends_the_failure(tmp_path: Path) -> None:
    synthetic.write_run(tmp_path, synthetic.run(CELL, gflops=10))
    synthetic.write_run(tmp_path, synthetic.run(CELL, status="crashed", reason="SIGSEGV"))
    synthetic.write_run(tmp_path, synthetic.run(CELL, gflops=30, seed=2))
    (row,) = collect(tmp_path).cells
    assert (row["status"], row["last_good_at"], row["retry"]) == ("ok", None, None)
    assert row["gflops"] == pytest.approx(30, rel=0.1)
    assert row.flags == []


def test_without_a_good_run_a_failed_cell_publishes_nothing(tmp_path: Path) -> None:
    for _ in range(2):
        synthetic.write_run(tmp_path, synthetic.run(CELL, status="crashed", reason="SIGSEGV"))
    (row,) = collect(tmp_path).cells
    assert (row["status"], row["gflops"], row.flags) == ("crashed", None, [])


def bad_lines() -> dict[str, bytes]:
    good = json.dumps(synthetic.run(CELL)).encode()

    def changed(**fields: Any) -> bytes:
        return json.dumps(synthetic.run(CELL) | fields).encode()

    return {
        "truncated": good[: len(good) // 2],
        "newer schema": changed(schema=99),
        "older schema": changed(schema=0),
        "schema is text": changed(schema="1"),
        "not JSON": b"hello",
        "a number": b"42",
        "a list": b"[1, 2]",
        "null": b"null",
        "binary": bytes(range(256)).replace(b"\n", b""),
        "no status": json.dumps({"schema": 1}).encode(),
        "unknown status": changed(status="splendid"),
        "status is a list": changed(status=[]),
        "cell is text": changed(cell="gemm"),
        "cell without shape": changed(cell={"routine": "gemm"}),
        "options are a list": changed(cell=CELL.to_json() | {"options": [1]}),
        "alpha is infinite": changed(cell=CELL.to_json() | {"options": {"alpha": 1e999}}),
        "alpha is a list": changed(cell=CELL.to_json() | {"options": {"alpha": []}}),
        "shape is text": changed(cell=CELL.to_json() | {"shape": ["64", "64", "64"]}),
        "other cell": json.dumps(synthetic.run(synthetic.gemm(128))).encode(),
        "other backend": changed(backend="torch-cpu"),
        "backend is a number": changed(backend=7),
        "invocations are text": changed(invocations="five"),
        "an invocation is text": changed(invocations=["x"]),
        "ok without invocations": changed(invocations=[]),
        "NaN samples": good.replace(b'"elapsed_ns": [', b'"elapsed_ns": [NaN, '),
        "huge number": good.replace(b'"elapsed_ns": [', b'"elapsed_ns": [' + b"9" * 5000 + b","),
        "negative samples": good.replace(b'"elapsed_ns": [', b'"elapsed_ns": [-5, '),
        "nested too deeply": b"[" * 100_000,
        "duplicate keys": b'{"schema": 1, "schema": {}}',
    }


@pytest.mark.parametrize("kind", bad_lines())
def test_a_bad_file_is_named_and_left_alone(tmp_path: Path, kind: str) -> None:
    content = bad_lines()[kind] + b"\n"
    synthetic.write_run(tmp_path, synthetic.run(synthetic.gemm(32)))
    path = tmp_path / "machine-a" / "numpy-openblas" / f"{CELL.name}.jsonl"
    path.write_bytes(content)
    found = collect(tmp_path)
    assert [row["n"] for row in found.cells] == [32]
    assert any(problem.file == path.as_posix() for problem in found.problems)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "kind", ["truncated", "newer schema", "not JSON", "ok without invocations"]
)
def test_a_bad_line_costs_only_itself(tmp_path: Path, kind: str) -> None:
    path = synthetic.write_run(tmp_path, synthetic.run(CELL, gflops=10))
    with path.open("ab") as file:
        file.write(bad_lines()[kind] + b"\n")
    synthetic.write_run(tmp_path, synthetic.run(CELL, gflops=20))
    found = collect(tmp_path)
    assert len(found.runs) == 2
    assert found.cells[0]["gflops"] == pytest.approx(20, rel=0.1)
    named = [problem for problem in found.problems if problem.file == path.as_posix()]
    assert len(named) == 1


def test_an_empty_file_is_a_problem(tmp_path: Path) -> None:
    path = synthetic.write_run(tmp_path, synthetic.run(CELL))
    path.write_bytes(b"")
    assert any("empty" in text for text in problems_of(collect(tmp_path)))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"{", "cannot be read"),
        (b"[]", "not a JSON object but list"),
        (b"\xff\xfe", "cannot be read"),
    ],
)
def test_a_bad_machine_file_is_named(tmp_path: Path, content: bytes, told: str) -> None:
    synthetic.write_run(tmp_path, synthetic.run(CELL))
    (tmp_path / "machine-a" / "machine.json").write_bytes(content)
    found = collect(tmp_path)
    assert found.machines == {"machine-a": None}
    assert any(told in text for text in problems_of(found))
    assert len(found.cells) == 1


def test_a_machine_without_its_file_is_named(tmp_path: Path) -> None:
    synthetic.write_run(tmp_path, synthetic.run(CELL))
    assert any("machine.json:None: is missing" in text for text in problems_of(collect(tmp_path)))


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda lines: [b"{"], "not a line of a plan"),
        (lambda lines: [], "empty"),
        (lambda lines: [b'{"schema": 2, "kind": "plan"}'], "schema 2 of a plan"),
        (lambda lines: [lines[0], b"nonsense", lines[1]], "not a line of a plan"),
        (lambda lines: [lines[0], lines[1].replace(b'"numpy-openblas"', b'"../x"')], "not a name"),
        (lambda lines: [lines[0], lines[1].replace(b'"planned"', b'"done"')], "status 'done'"),
        (lambda lines: [lines[0], lines[1].replace(b"[64", b"[1e999")], "whole number"),
    ],
)
def test_a_damaged_plan_is_named(tmp_path: Path, damage: Any, told: str) -> None:
    path = synthetic.write_plan(tmp_path, [("numpy-openblas", CELL, "planned", None)])
    path.write_bytes(b"\n".join(damage(path.read_bytes().splitlines())))
    assert any(told in text for text in problems_of(collect(tmp_path)))


def test_the_plan_names_the_study(collection: Collection) -> None:
    assert collection.plan is not None
    assert (collection.plan.study, collection.plan.machine) == ("synthetic", "machine-a")
    assert collection.plan.deploy == "venv"


def test_conda_plans_give_conda_commands(tmp_path: Path) -> None:
    other = synthetic.gemm(32)
    unsaid = synthetic.run(other, backend="numpy-mkl", status="env-failed", environment={})
    synthetic.write_run(tmp_path, unsaid)
    cells = [("numpy-mkl", cell, "planned", None) for cell in (CELL, other)]
    synthetic.write_plan(tmp_path, cells, deploy="conda")
    folder = (tmp_path / "machine-a" / "numpy-mkl").as_posix()
    assert {row["retry"] for row in collect(tmp_path).cells} == {
        f"snakemake --cores 1 --use-conda -f {folder}/{cell.name}.jsonl" for cell in (CELL, other)
    }


def test_commands_name_the_studys_own_config(tmp_path: Path) -> None:
    path = synthetic.write_plan(tmp_path, [("numpy-mkl", CELL, "planned", None)])
    lines = path.read_text().splitlines()
    files = ["config/config.yaml", "my studies/a.yaml"]
    lines[0] = json.dumps(json.loads(lines[0]) | {"configfiles": files})
    path.write_text("\n".join(lines))
    (row,) = collect(tmp_path).cells
    assert row["retry"].startswith("snakemake --cores 1 --configfile 'my studies/a.yaml' -f ")
