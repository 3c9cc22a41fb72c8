"""The commands as the workflow calls them: summary, gate, tables, page, all."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gemmgrid.records.text import number
from gemmgrid.report.command import main
from gemmgrid.report.terminal.text import wants_colour
from tests.report import synthetic

ROOT = Path(__file__).parents[2]
CELL = synthetic.gemm(64)


def report(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gemmgrid", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": "workflow", **environment},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )


def complete(results: Path) -> None:
    synthetic.write_run(results, synthetic.run(CELL))
    synthetic.write_run(results, synthetic.run(synthetic.gemm(128), status="unsupported"))
    synthetic.write_run(results, synthetic.run(synthetic.gemm(256), status="infeasible"))
    plan: list[tuple[str, object, str, str | None]] = [
        ("numpy-openblas", synthetic.gemm(n), "planned", None) for n in (64, 128, 256)
    ]
    plan.append(("jax-cpu", CELL, "excluded", "exclude: jax"))
    plan.append(("mlx-cpu", CELL, "unsupported", "no MLX here"))
    synthetic.write_plan(results, plan)  # type: ignore[arg-type]


def test_gate_opens_when_all_is_settled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    complete(tmp_path)
    marker = tmp_path / ".plan" / "complete.json"
    assert main(["gate", "--results", str(tmp_path), "--marker", str(marker)]) == 0
    assert capsys.readouterr() == ("", "")
    assert json.loads(marker.read_text()) == {
        "schema": 1,
        "kind": "complete",
        "study": "synthetic",
        "machine": "machine-a",
        "cells": {"excluded": 1, "infeasible": 1, "ok": 1, "unsupported": 2},
    }


@pytest.mark.parametrize(
    "status", ["wrong", "implausible", "oom", "timeout", "crashed", "env-failed", "lost"]
)
def test_gate_stays_shut_for_what_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], status: str
) -> None:
    complete(tmp_path)
    marker = tmp_path / "complete.json"
    marker.write_text("from before")
    synthetic.write_run(tmp_path, synthetic.run(CELL, status=status))
    assert main(["gate", "--results", str(tmp_path), "--marker", str(marker)]) == 1
    told = capsys.readouterr().err
    assert told == f"incomplete: 1 cell {status}: numpy-openblas/{CELL.name}\n"
    assert not marker.exists()


def test_gate_counts_what_has_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cells = [("torch-cpu", synthetic.gemm(n), "planned", None) for n in (64, 128, 256)]
    synthetic.write_plan(tmp_path, cells)
    assert main(["gate", "--results", str(tmp_path), "--marker", str(tmp_path / "m")]) == 1
    told = capsys.readouterr().err
    assert told == "incomplete: 3 cells missing: torch-cpu/gemm.float32.64x64x64.t1 and 2 more\n"


def test_gate_without_a_plan_or_with_a_broken_one_stays_shut(tmp_path: Path) -> None:
    arguments = ["gate", "--results", str(tmp_path), "--marker", str(tmp_path / "m")]
    assert main(arguments) == 1
    complete(tmp_path)
    assert main(arguments) == 0
    with (tmp_path / ".plan" / "plan.jsonl").open("a") as file:
        file.write("{broken\n")
    assert main(arguments) == 1
    assert not (tmp_path / "m").exists()


def test_gate_ignores_other_machines(tmp_path: Path) -> None:
    complete(tmp_path)
    synthetic.write_run(tmp_path, synthetic.run(CELL, "machine-b", status="crashed"))
    assert main(["gate", "--results", str(tmp_path), "--marker", str(tmp_path / "m")]) == 0


def test_summary_names_every_planned_cell_what_is_missing_and_the_report(study: Path) -> None:
    found = report("summary", "--results", study, "--out", "reports/none.html")
    assert found.returncode == 0, found.stderr
    lines = found.stdout.splitlines()
    assert lines[0].startswith("study synthetic: ")
    assert "crashed  mlx-cpu, 1 cell: the process died of SIGSEGV while sampling" in lines
    assert "missing  torch-cpu, 3 cells: no run yet" in lines
    assert lines[-1] == "report: reports/none.html is not made yet"
    assert "machine-b" not in found.stdout


def test_summary_fits_and_is_plain_in_a_pipe(study: Path) -> None:
    found = report("summary", "--results", study)
    assert "\x1b" not in found.stdout
    commands = ("    /", "  snakemake")
    wide = [line for line in found.stdout.splitlines() if len(line) > 100]
    assert [line for line in wide if not line.startswith(commands)] == []


def test_summary_commands_can_be_pasted(tmp_path: Path) -> None:
    synthetic.write_run(tmp_path, synthetic.run(CELL, status="lost"))
    found = report("summary", "--results", tmp_path)
    start = found.stdout.index("  snakemake")
    pasted = found.stdout[start : found.stdout.index("\n\n", start)]
    told = subprocess.run(
        ["sh", "-c", "snakemake() { printf '%s|' \"$@\"; }\n" + pasted],
        capture_output=True,
        text=True,
        check=True,
    )
    path = tmp_path / "machine-a" / "numpy-openblas" / f"{CELL.name}.jsonl"
    assert told.stdout == f"--cores|1|-f|{path}|"


def test_summary_says_where_the_report_is(tmp_path: Path) -> None:
    out = tmp_path / "index.html"
    out.write_text("")
    assert report("summary", "--results", tmp_path, "--out", out).stdout.endswith(
        f"report: {out}\n"
    )


def test_summary_survives_an_ascii_terminal(study: Path) -> None:
    found = report("summary", "--results", study, PYTHONIOENCODING="ascii")
    assert found.returncode == 0, found.stderr


def test_summary_lets_no_escape_sequence_through(tmp_path: Path) -> None:
    reason = "\x1b]0;owned\x07\x1b[2J"
    synthetic.write_run(tmp_path, synthetic.run(CELL, status="crashed", reason=reason))
    found = report("summary", "--results", tmp_path)
    assert not {"\x1b", "\x07"} & set(found.stdout)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colours_only_where_they_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert wants_colour(Terminal())
    assert not wants_colour(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not wants_colour(Terminal())
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not wants_colour(Terminal())


def test_all_makes_tables_and_page(tmp_path: Path) -> None:
    synthetic.write_run(tmp_path / "results", synthetic.run(CELL))
    out = tmp_path / "reports" / "index.html"
    found = report("report", "--results", tmp_path / "results", "--out", out)
    assert found.returncode == 0, found.stderr
    assert out.exists()
    assert (tmp_path / "results" / "tables" / "cells.parquet").exists()


def test_drawing_needs_no_display_and_tables_no_drawing(tmp_path: Path) -> None:
    synthetic.write_run(tmp_path, synthetic.run(CELL))
    code = (
        "import sys; from gemmgrid.report.command import main; "
        f"main(['tables', '--results', {str(tmp_path)!r}]); "
        "sys.exit('matplotlib' in sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "workflow")}
    assert (
        subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0, "0"),
        (0.001234, "0.001234"),
        (0.0001234, "1.234e-04"),
        (9.9996, "10.00"),
        (123.45, "123.5"),
        (12345.6, "12350"),
        (2.9e-7, "2.900e-07"),
    ],
)
def test_numbers_as_people_read_them(value: float | None, text: str) -> None:
    assert number(value) == text


def test_reasons_that_differ_in_numbers_are_told_once(tmp_path: Path) -> None:
    for index in range(5):
        reason = f"relative error {0.1 * index:.2f} is above the bound 1e-0{index + 1}"
        cell = synthetic.gemm(64 + index)
        synthetic.write_run(tmp_path, synthetic.run(cell, status="wrong", reason=reason))
    told = report("summary", "--results", tmp_path).stdout
    assert told.count("relative error") == 1
    assert (
        "numpy-openblas, 5 cells: relative error 0.00 is above the bound 1e-01 (and 4 alike)"
        in told
    )
    assert "… 2 more: column retry of tables/cells.csv" in told


def test_what_every_cell_is_flagged_with_is_said_once(tmp_path: Path) -> None:
    for n, flags in ((64, ["one-round"]), (128, ["one-round", "throttled"])):
        synthetic.write_run(tmp_path, synthetic.run(synthetic.gemm(n), flags=flags))
    lines = report("summary", "--results", tmp_path).stdout.splitlines()
    assert "every measured cell: one-round" in lines
    assert [line.split()[-1] for line in lines if "gemm." in line] == ["ok", "throttled"]
