"""Which cells need a run is told from the last lines of their histories, whoever wrote them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gemmgrid.plan.jobs.blocks import divide, of_turns, part_name, turns
from gemmgrid.plan.jobs.needed import CHANGED, ELSEWHERE, LOST, MISSING, Histories, answers
from gemmgrid.plan.jobs.targets import Targets, unknown
from gemmgrid.records import cell as cells
from gemmgrid.records.latest import spec_digest
from tests.plan.conftest import block

STUDY = {"machine": "here", "grid": [block(shapes=[16, 32, 64], backends=["numpy-openblas"])]}


@pytest.fixture
def plan(project):
    return project.plan({**STUDY, "backends": "auto"})


def run_of(cell: Any, **changed: Any) -> dict[str, Any]:
    """A run as the supervisor writes it, as far as planning reads it."""
    document = cell.document
    return {
        "schema": 1,
        "id": "20261130T120000-aaaaaa",
        "started_at": "2026-11-30T12:00:00Z",
        "machine": "here",
        "backend": cell.backend,
        "adapter": document["adapter"],
        "device": document["device"],
        "cell": document["cell"],
        "status": "ok",
        "flags": [],
        "spec": spec_digest(cell.spec),
        "context": {"backend": {"options": {}, "variables": {"OMP_NUM_THREADS": "1"}}},
        "invocations": [],
    } | changed


def write(folder: Path, cell: Any, *runs: dict[str, Any]) -> Path:
    path = folder / cell.path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(run)}\n" for run in runs))
    return path


def test_a_cell_without_a_run_is_missing(plan, tmp_path):
    found = Histories(plan, tmp_path)
    assert [found.why(cell) for cell in plan.cells] == [MISSING] * 3
    assert found.latest_id(plan.cells[0]) is None


def test_the_newest_run_decides(plan, tmp_path):
    first, second, third = plan.cells
    write(tmp_path, first, run_of(first, spec="other"), run_of(first))
    write(tmp_path, second, run_of(second), run_of(second, spec="other"))
    write(tmp_path, third, run_of(third), run_of(third, status="lost"))
    found = Histories(plan, tmp_path)
    assert [found.why(cell) for cell in plan.cells] == [None, CHANGED, LOST]


@pytest.mark.parametrize("status", ["wrong", "crashed", "env-failed", "timeout", "infeasible"])
def test_a_failed_run_is_a_run(plan, tmp_path, status):
    (cell, *_) = plan.cells
    write(tmp_path, cell, run_of(cell, status=status))
    assert Histories(plan, tmp_path).why(cell) is None


def test_a_run_of_another_machine_is_sent_again_and_here_it_stays(plan, tmp_path):
    (cell, *_) = plan.cells
    write(tmp_path, cell, run_of(cell, flags=["other-machine"]))
    assert Histories(plan, tmp_path).why(cell) is None
    behind_slurm = replace(plan, machines={"here": None})
    assert Histories(behind_slurm, tmp_path).why(cell) == ELSEWHERE


def test_a_raised_protocol_needs_every_cell(project, tmp_path, monkeypatch):
    before = project.plan(STUDY)
    for cell in before.cells:
        write(tmp_path, cell, run_of(cell))
    assert not any(map(Histories(before, tmp_path).why, before.cells))
    raised = [replace(cell, cell=replace(cell.cell, protocol=99)) for cell in before.cells]
    for cell in raised:
        document = {**cell.document, "cell": cell.cell.to_json()}
        cell.spec = json.dumps(document, sort_keys=True, separators=(",", ":"))
    found = Histories(before, tmp_path)
    assert [found.why(cell) for cell in raised] == [CHANGED] * 3
    assert cells.PROTOCOL != 99


@pytest.mark.parametrize(
    ("changed", "answered"),
    [
        ({}, True),
        ({"adapter": "scipy"}, False),
        ({"device": "cuda"}, False),
        ({"context": {"backend": {"options": {"tf32": True}}}}, False),
        ({"context": None}, True),
        ({"context": {"backend": {"variables": {"OMP_NUM_THREADS": "8"}}}}, True),
    ],
)
def test_a_run_from_before_specs_were_kept_is_compared_by_what_it_tells(plan, changed, answered):
    (cell, *_) = plan.cells
    run = run_of(cell, **changed)
    del run["spec"]
    assert answers(run, cell) is answered


def test_variables_of_an_older_run(plan):
    (cell, *_) = plan.cells
    wanted = {**cell.document, "variables": {"OPENBLAS_CORETYPE": "Haswell"}}
    changed = replace(cell, spec=json.dumps(wanted, sort_keys=True, separators=(",", ":")))
    run = run_of(cell)
    del run["spec"]
    run["context"]["backend"]["variables"]["OPENBLAS_CORETYPE"] = "Haswell"
    assert answers(run, changed)
    run["context"]["backend"]["variables"]["OPENBLAS_CORETYPE"] = "Zen"
    assert not answers(run, changed)


def test_an_occasion_is_another_after_each_run_and_with_other_settings(plan, tmp_path):
    (cell, *_) = plan.cells
    none = Histories(plan, tmp_path).occasion(cell)
    assert none == Histories(plan, tmp_path).occasion(cell)
    write(tmp_path, cell, run_of(cell))
    once = Histories(plan, tmp_path).occasion(cell)
    write(tmp_path, cell, run_of(cell), run_of(cell, id="later"))
    twice = Histories(plan, tmp_path).occasion(cell)
    other = replace(plan, settings={**plan.settings, "invocations": 99})
    assert len({none, once, twice, Histories(other, tmp_path).occasion(cell)}) == 4


def test_blocks_follow_the_order_of_the_shuffled_grid(plan, tmp_path):
    histories, parts = Histories(plan, tmp_path), tmp_path / "parts"
    blocks = divide(plan.cells, histories, parts, {"here": 1})
    assert [len(one.cells) for one in blocks] == [1, 1, 1]
    assert [one.turn for one in blocks] == [0, 1, 2]
    assert all(one.rounds == (1, 2, 3, 4, 5) and one.name.startswith("0-") for one in blocks)
    assert len({one.name for one in blocks}) == 3
    (one,) = divide(plan.cells, histories, parts, {})
    assert [cell.order for cell in one.cells] == [0, 1, 2]


def test_blocks_of_several_cells_and_what_is_there_already(project, tmp_path):
    plan = project.plan({**STUDY, "sampling": {"invocations": 4, "rounds": 2}})
    found, parts = Histories(plan, tmp_path), tmp_path / "parts"
    in_turn = sorted(plan.cells, key=lambda cell: cell.order)

    def keep(cell: Any, number: int) -> None:
        name = part_name(cell.name, found.occasion(cell), number)
        file = parts / cell.machine / cell.backend / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()

    (one,) = divide(plan.cells, found, parts, {"here": 50})
    assert (one.cells, one.rounds) == (tuple(in_turn), (1, 2))
    for cell in in_turn:
        keep(cell, 1)
    keep(in_turn[0], 2)
    whole, rest = divide(plan.cells, found, parts, {"here": 50})
    assert (whole.cells, whole.rounds) == ((in_turn[0],), ())
    assert (rest.cells, rest.rounds) == (tuple(in_turn[1:]), (2,))


def test_turns_are_written_as_stretches(plan):
    assert turns(plan.cells) == "0-2"
    assert of_turns("0-2,7,9-10") == {0, 1, 2, 7, 9, 10}
    assert of_turns("") == set()
    assert of_turns(turns([cell for cell in plan.cells if cell.order != 1])) == {0, 2}


@pytest.fixture
def histories(plan, tmp_path) -> Histories:
    """The second cell of the grid has a run, the others have none."""
    write(tmp_path, plan.cells[1], run_of(plan.cells[1]))
    return Histories(plan, tmp_path)


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ({}, [0, 2]),
        ({"names": {"all"}}, [0, 2]),
        ({"names": {"reports/index.html"}}, [0, 2]),
        ({"names": {"report"}}, []),
        ({"names": {"stale", "compare"}}, []),
        ({"names": {0}}, [0]),
        ({"names": {1}}, []),
        ({"names": {1}, "target_forced": True}, [1]),
        ({"names": {1, "all"}, "target_forced": True}, [0, 1, 2]),
        ({"forced": {1}}, [0, 1, 2]),
        ({"names": {0}, "forced": {1}}, [0, 1]),
        ({"all_forced": True}, [0, 1, 2]),
        ({"names": {1}, "all_forced": True}, [1]),
        ({"forced": {"measure"}}, [0, 1, 2]),
        ({"names": {"refresh"}}, []),
        ({"names": {"refresh"}, "refreshed": {1}}, [1]),
        ({"names": {"refresh", 0}, "refreshed": {1}}, [0, 1]),
    ],
)
def test_what_a_command_line_asks_for(plan, histories, asked, wanted):
    """A number stands for the path of that cell of the grid."""

    def paths(names: Any) -> Any:
        if not isinstance(names, set):
            return names
        return frozenset(plan.cells[n].path if isinstance(n, int) else n for n in names)

    targets = Targets(**{key: paths(value) for key, value in asked.items()})
    chosen = targets.cells({cell.path: cell for cell in plan.cells}, histories)
    assert [plan.cells.index(cell) for cell in chosen] == wanted


def test_a_path_may_be_written_as_a_shell_completes_it(plan, histories):
    path = plan.cells[0].path
    targets = Targets(names=frozenset({f"./{path}"}), target_forced=True)
    planned = {cell.path: cell for cell in plan.cells}
    assert targets.cells(planned, histories) == [plan.cells[0]]
    assert unknown([f"./{path}", "-f"], planned) is None
    assert unknown(["results/a/b/c.jsonl"], planned) == "results/a/b/c.jsonl"
    assert unknown(["results/a/b.jsonl", "results/tables/cells.csv"], planned) is None
