"""benchmarks/costs.py: its arithmetic, and that every part runs; never its timings."""

from __future__ import annotations

import re
import sys

import pytest
from support import ROOT, dry_runs, output
from support.cell_costs import CellCost

from gemmgrid.plan import load


def invocation(warmup: float, samples: list[float]) -> dict[str, object]:
    return {
        "warmup": {"seconds": warmup},
        "samples": {"elapsed_ns": [int(1e9 * seconds) for seconds in samples]},
        "import_s": 0.1,
        "setup_s": 0.02,
        "first_call_s": 0.003,
    }


def test_the_cost_of_a_cell_is_what_is_neither_warm_up_nor_sample():
    run = {
        "invocations": [invocation(0.1, [0.1, 0.1]), invocation(0.2, [0.3])],
        "evidence": {"cost_s": 0.25},
    }
    cost = CellCost(wall=2.0, run=run)
    assert cost.timed == pytest.approx(0.8)
    assert cost.beyond == pytest.approx(1.2)
    assert cost.parts["imports"] == pytest.approx(0.2)
    assert cost.parts["evidence"] == 0.25
    assert sum(cost.parts.values()) == pytest.approx(1.2)


def test_a_verdict_names_target_and_measure():
    assert output.verdict("x", 1.2, 1.2, "s").endswith("1.200 s   target ≤ 1.2 s: met")
    assert output.verdict("x", 1.3, 1.2, "s", "  (2 cells)").endswith("MISSED  (2 cells)")


@pytest.mark.parametrize("count", [20, 200])
def test_the_grid_has_as_many_cells_as_the_bare_workflow_has_jobs(count):
    import yaml

    config = yaml.safe_load((ROOT / "config" / "config.yaml").read_text())
    plan = load(config | dry_runs.config_of(count), ROOT, "venv")
    assert len(plan.cells) + len(plan.skipped) == count


def test_a_grid_that_cannot_be_made_is_refused():
    with pytest.raises(ValueError, match="21 cells are no multiple of 20"):
        dry_runs.config_of(21)


def test_time_and_memory_of_a_process_are_measured(tmp_path):
    code = "import time; kept = bytearray(b'x' * 300_000_000); time.sleep(0.3)"
    cost = dry_runs.run([sys.executable, "-c", code], tmp_path)
    assert cost.seconds >= 0.3
    assert 300 < cost.peak_mb < 700
    assert cost.cpu_s > 0


def test_a_process_that_fails_is_quoted(tmp_path):
    with pytest.raises(RuntimeError, match="exit code 3: no such grid"):
        code = "import sys; print('no such grid'); sys.exit(3)"
        dry_runs.run([sys.executable, "-c", code], tmp_path)


def test_both_dry_runs_plan_every_job(tmp_path):
    """Twenty shell jobs; and twenty cells in five rounds of one job each."""
    ways = (("grid", dry_runs.lay_out_grid, 5), ("bare", dry_runs.lay_out_bare, 20))
    for name, lay_out, jobs in ways:
        folder = tmp_path / name
        folder.mkdir()
        command = lay_out(folder, 20)
        at = command.index("--dry-run")
        # With the counts of jobs, which the profile leaves out.
        dry_runs.run([*command[:at], "--quiet", "host", *command[at:]], folder)
        said = (folder / "said.txt").read_text()
        assert re.search(rf"^(measure|job)\s+{jobs}$", said, re.M), said


def test_the_program_states_every_target(program):
    done = program("costs.py", "--quick")
    assert done.returncode == 0, done.stdout + done.stderr
    for target in (
        "dry run of 200 cells, of a bare one .* target ≤ 1.5 ×: (met|MISSED)",
        "dry run of 200 cells, peak memory .* target ≤ 600 MB: met",
        "plan of 200 cells .* target ≤ 0.7 s: (met|MISSED)",
        "cell of 2 processes, evidence off .* target ≤ 1.2 s: (met|MISSED)",
        "cell of 2 processes, evidence on .* target ≤ 1.2 s: (met|MISSED)",
    ):
        assert re.search(target, done.stdout), done.stdout
