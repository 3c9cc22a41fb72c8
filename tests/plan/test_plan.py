"""What a plan is: order, digest, exclusions, narrowing, and its file."""

from __future__ import annotations

import json
import random
import subprocess
import sys

import pytest

from gemmgrid.plan import ConfigError
from gemmgrid.records.cell import Cell
from tests.plan.conftest import LINUX_GPU, ROOT, block, names

BOTH = {"backends": ["numpy-openblas", "torch-cpu"]}
GRID = {"grid": [block(shapes=[8, 16, 32, 64], dtypes=["float32", "float64"], **BOTH)]}


def orders(plan):
    return {cell.path: cell.order for cell in plan.cells}


def test_the_order_is_a_shuffle_across_backends_that_only_the_seed_changes(project):
    plan = project.plan({**GRID, "seed": 7})
    turns = sorted(plan.cells, key=lambda cell: cell.order)
    assert [cell.order for cell in turns] == list(range(16))
    backends = [cell.backend for cell in turns]
    assert backends != sorted(backends) and backends != sorted(backends, reverse=True)
    assert orders(project.plan({**GRID, "seed": 7})) == orders(plan)
    assert orders(project.plan({**GRID, "seed": 8})) != orders(plan)


def test_the_order_is_the_same_in_another_process_and_for_ever(project):
    plan = project.plan({**GRID, "seed": 7})
    code = (
        "import json, sys; from pathlib import Path; from gemmgrid.plan import load;"
        "plan = load(json.loads(sys.argv[1]), Path(sys.argv[2]), 'venv');"
        "print(json.dumps({f'{c.backend}/{c.name}': c.order for c in plan.cells}))"
    )
    config = json.dumps({**GRID, "seed": 7, "machine": "test-linux"})
    done = subprocess.run(
        [sys.executable, "-c", code, config, str(project.root)],
        env={"PYTHONPATH": str(ROOT / "workflow"), "PYTHONHASHSEED": "99"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == {f"{c.backend}/{c.name}": c.order for c in plan.cells}


def test_a_grown_grid_keeps_the_turns_of_its_cells(project):
    small = sorted(project.plan(GRID).cells, key=lambda cell: cell.order)
    grown = orders(project.plan({"grid": [*GRID["grid"], block(shapes=[100, 101], **BOTH)]}))
    turns = [grown[cell.path] for cell in small]
    assert turns == sorted(turns)


def test_the_digest_ignores_the_order_of_the_config_and_sees_its_content(project):
    blocks = [block(shapes=n, **BOTH) for n in (8, 16, 32)]
    shuffled = random.Random(1).sample(blocks, 3)
    digest = project.plan({"grid": blocks}).digest
    assert project.plan({"grid": shuffled, "study": "another name"}).digest == digest
    assert project.plan({"grid": blocks[:2]}).digest != digest
    without = {"backend": "torch-cpu", "n": 8, "reason": "why"}
    assert project.plan({"grid": blocks, "exclude": [without]}).digest != digest


def test_the_spec_holds_all_that_must_measure_again(project):
    (cell,) = project.plan({"grid": [block(backends=["cblas-openblas"])]}).cells
    spec = json.loads(cell.spec)
    assert sorted(spec) == [
        *("adapter", "backend", "blas", "cell", "device", "options", "variables"),
    ]
    assert Cell.from_json(spec["cell"]) == cell.cell
    assert spec["options"] == {"library": "openblas"}
    assert cell.spec == json.dumps(spec, sort_keys=True, separators=(",", ":"))
    assert cell.path == f"results/test-linux/cblas-openblas/{cell.name}.jsonl"


def test_excluded_cells_keep_their_reason_and_the_first_that_fits_gives_it(project):
    exclude = [
        {"backend": "torch-*", "n": ">=32", "reason": "slow here"},
        {"n": 64, "dtype": "float64", "reason": "not asked for"},
    ]
    plan = project.plan({**GRID, "exclude": exclude})
    reasons = {(one.backend, one.name): one.reason for one in plan.skipped}
    assert {one.status for one in plan.skipped} == {"excluded"}
    assert reasons == {
        ("torch-cpu", "gemm.float32.32x32x32.t1"): "slow here",
        ("torch-cpu", "gemm.float32.64x64x64.t1"): "slow here",
        ("torch-cpu", "gemm.float64.32x32x32.t1"): "slow here",
        ("torch-cpu", "gemm.float64.64x64x64.t1"): "slow here",
        ("numpy-openblas", "gemm.float64.64x64x64.t1"): "not asked for",
    }
    assert len(plan.cells) == 11


def test_excluding_by_the_machines_name(project):
    exclude = [{"machine": "test-*", "n": 8, "reason": "r"}]
    assert len(project.plan({**GRID, "exclude": exclude}).cells) == 12
    exclude = [{"machine": "elsewhere", "n": 8, "reason": "r"}]
    assert len(project.plan({**GRID, "exclude": exclude}).cells) == 16


@pytest.mark.parametrize(
    "narrow", ["torch-cpu,numpy-openblas", ["torch-cpu", "numpy-openblas"], " torch-cpu , numpy-o*"]
)
def test_backends_narrow_an_automatic_block(project, narrow):
    plan = project.plan({"grid": [block()], "backends": narrow})
    assert {cell.backend for cell in plan.cells} == {"torch-cpu", "numpy-openblas"}


def test_backends_narrow_a_block_that_names_its_own(project):
    plan = project.plan({**GRID, "backends": "torch-cpu,jax-cpu"})
    assert {cell.backend for cell in plan.cells} == {"torch-cpu"}


def test_a_backend_narrowed_to_that_cannot_run_stays_with_its_reason(project):
    plan = project.plan({"grid": [block()], "backends": "torch-cuda,torch-cpu"})
    assert [cell.backend for cell in plan.cells] == ["torch-cpu"]
    (skipped,) = plan.skipped
    assert skipped.backend == "torch-cuda" and "no NVIDIA driver" in skipped.reason


def test_select_drops_what_it_does_not_mean(project):
    plan = project.plan({**GRID, "select": "backend=torch-cpu dtype=float64 n>=16"})
    assert names(plan, "numpy-openblas") == []
    assert len(names(plan, "torch-cpu")) == 3
    assert plan.skipped == []


def test_select_as_a_mapping(project):
    plan = project.plan({**GRID, "select": {"n": [8, 16], "backend": "numpy-*"}})
    assert len(plan.cells) == 4


def test_only_backends_that_measure_something_are_in_the_plan(project):
    plan = project.plan({"grid": [block(backends=["numpy-openblas", "torch-cuda"])]})
    assert list(plan.backends) == ["numpy-openblas"]


def test_there_are_at_most_as_many_rounds_as_invocations(project):
    plan = project.plan({**GRID, "sampling": {"invocations": 2}})
    assert plan.settings["rounds"] == 2


def test_settings_are_complete_and_flat(project):
    plan = project.plan({**GRID, "sampling": {"sample_s": "1e-1"}, "budget": {"cell_s": 9}})
    assert plan.settings == {
        "invocations": 5,
        "rounds": 5,
        "warmup_s": 0.1,
        "sample_s": 0.1,
        "min_samples": 3,
        "max_samples": 2000,
        "interval": 0.01,
        "batch_s": 0.001,
        "budget_s": 9,
        "memory_fraction": 0.8,
        "evidence": True,
    }


def test_plan_file(project, tmp_path):
    exclude = [{"n": 64, "reason": "r"}]
    plan = project.plan({**GRID, "study": "a study", "exclude": exclude})
    path = tmp_path / "deep/plan.jsonl"
    plan.write(path)
    header, *lines = map(json.loads, path.read_text().splitlines())
    assert (
        header.items()
        >= {
            "schema": 1,
            "kind": "plan",
            "study": "a study",
            "machine": "test-linux",
            "deploy": "venv",
            "seed": 1,
            "settings": plan.settings,
        }.items()
    )
    assert header["created_at"].endswith("Z")
    assert [line["status"] for line in lines] == ["planned"] * 12 + ["excluded"] * 4
    for line in lines:
        cell = Cell.from_json(line["cell"])
        assert line["name"] == cell.name
        assert line["path"] == f"results/test-linux/{line['backend']}/{cell.name}.jsonl"
        assert (line["adapter"], line["device"]) == (line["backend"].split("-")[0], "cpu")
    assert sorted(line["order"] for line in lines[:12]) == list(range(12))
    assert {(line["order"], line["reason"]) for line in lines[12:]} == {(None, "r")}
    assert [file.name for file in path.parent.iterdir()] == ["plan.jsonl"]


def test_nothing_left_says_why(project):
    grid = [block(backends=["torch-cuda", "torch-mps"]), block(backends=["numpy-openblas"])]
    exclude = [{"adapter": "numpy", "reason": "it is known"}]
    with pytest.raises(ConfigError) as caught:
        project.plan({"grid": grid, "exclude": exclude})
    text = str(caught.value)
    assert "leaves no cell to measure on test-linux (linux-x86_64) with DEPLOY=venv" in text
    assert "torch-cuda: 1 cell unsupported: no NVIDIA driver here" in text
    assert "torch-mps: 1 cell unsupported: MPS needs the GPU of an Apple-silicon Mac" in text
    assert "numpy-openblas: 1 cell excluded: it is known" in text


def test_a_selection_of_nothing_says_so(project):
    with pytest.raises(ConfigError, match="'select' matches no cell"):
        project.plan({**GRID, "select": "n>=100000"})


def test_narrowing_to_nothing_says_so(project):
    with pytest.raises(ConfigError, match="'backends' narrows the grid to jax-cpu"):
        project.plan({**GRID, "backends": "jax-cpu"})


def test_automatic_without_any_environment_says_what_is_missing(project, monkeypatch):
    monkeypatch.setattr("gemmgrid.system.project.PROJECT", project.root)
    for file in (project.root / "envs").iterdir():
        file.unlink()
    with pytest.raises(ConfigError) as caught:
        project.on(LINUX_GPU).plan({"grid": [block()]})
    assert "torch-cuda cannot run on test-gpu: it has no environment" in str(caught.value)


def test_an_unknown_way_to_deploy(project):
    with pytest.raises(ConfigError, match=r"deploy is 'cnda'.*Did you mean 'conda'"):
        project.plan(GRID, deploy="cnda")


def test_ten_thousand_cells(project):
    plan = project.plan({"grid": [block(shapes=list(range(1, 1441)))]})
    assert len(plan.cells) == 1440 * 7
    assert len({cell.path for cell in plan.cells}) == len(plan.cells)
