"""Which cells are stale, which a refresh chooses, and what is told about them."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gemmgrid.plan.change import refresh, stale
from gemmgrid.plan.change.refresh import WrongChoiceError, chosen
from gemmgrid.plan.change.stale import listing
from gemmgrid.plan.change.standing import Entry, Latest, Standing, request, standings
from gemmgrid.plan.config.registry import load_registry
from gemmgrid.records.cell import Cell
from gemmgrid.records.history import append

ROOT = Path(__file__).resolve().parents[3]
BACKEND = {
    "deploy": "venv",
    "adapter": "torch",
    "options": {},
    "protocol": 1,
    "lock": "l" * 16,
    "python": "3.11.7",
    "packages": {"torch": "2.13.0", "numpy": "2.4.6"},
    "variables": {"OMP_NUM_THREADS": "1"},
    "library": {
        "name": "cuBLAS",
        "version": "13.1.0",
        "file": "lib/libcublas.so",
        "fingerprint": "f",
    },
    "precision": {"allow_tf32": False},
}
HOST = {"kernel": "Linux 6.18", "microcode": "0x1", "governor": None, "id": "h" * 12}
GPU = {"driver": "580.65.06", "cuda": "13.0", "id": "g" * 12}
NOW = datetime(2026, 12, 1, tzinfo=UTC)


def entry(tmp_path: Path, n: int = 64, backend: str = "torch-cuda") -> Entry:
    cell = Cell("gemm", "float32", (n, n, n), 1)
    return Entry("here", backend, cell, str(tmp_path / f"here/{backend}/{cell.name}.jsonl"))


def record(
    one: Entry,
    status: str = "ok",
    day: int = 1,
    also: dict[str, Any] | None = None,
    **context: Any,
) -> None:
    parts = {"host": {k: v for k, v in HOST.items() if k != "id"}, "backend": BACKEND}
    parts["device"] = {k: v for k, v in GPU.items() if k != "id"}
    if one.backend != "torch-cuda":
        parts["device"] = None  # type: ignore[assignment]
    run = {
        "schema": 1,
        "id": f"{day}",
        "started_at": f"2026-11-{day:02}T12:00:00.000000Z",
        "ended_at": f"2026-11-{day:02}T12:00:06.000000Z",
        "machine": one.machine,
        "backend": one.backend,
        "device": "cuda" if one.backend == "torch-cuda" else "cpu",
        "cell": one.cell.to_json(),
        "status": status,
        "host": {"id": HOST["id"]},
        "gpu": {"id": GPU["id"]} if one.backend == "torch-cuda" else None,
        "context": {**parts, **context},
        "environment": {"deploy": "venv", "prefix": "/env"},
        "settings": {"rounds": 1},
        "invocations": [],
    }
    append(Path(one.path), run | (also or {}))


def answer(**changed: Any) -> dict[str, Any]:
    """What the machine says now: just what the runs recorded, unless changed."""
    context = {k: v for k, v in BACKEND.items() if k not in ("library", "variables", "precision")}
    backend = {
        "built": True,
        "reason": None,
        "context": context,
        "by_threads": {"1": BACKEND["variables"]},
        "files": {"lib/libcublas.so": "f"},
    }
    found: dict[str, Any] = {
        "machine": "here",
        "host": dict(HOST),
        "devices": {"cuda": dict(GPU)},
        "backends": {name: copy.deepcopy(backend) for name in ("torch-cuda", "torch-cpu")},
    }
    for path, value in changed.items():
        *parents, key = path.split("__")
        place = found
        for parent in parents:
            place = place[parent]
        place[key] = value
    return found


def standing(one: Entry, **changed: Any) -> Standing:
    (found,) = standings([one], {"here": answer(**changed)}, Latest())
    return found


def test_nothing_changed_nothing_stale(tmp_path: Path) -> None:
    one = entry(tmp_path)
    record(one)
    assert standing(one).changes == ()
    assert standing(one).seconds == 6.0


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"devices__cuda__driver": "590"}, ("device.driver", "580.65.06", "590")),
        ({"devices__cuda__id": "x"}, ("device.id", "g" * 12, "x")),
        ({"host__kernel": "Linux 6.19"}, ("host.kernel", "Linux 6.18", "Linux 6.19")),
        ({"host__governor": "powersave"}, ("host.governor", None, "powersave")),
        ({"host__id": "other"}, ("host.id", "h" * 12, "other")),
        (
            {"backends__torch-cuda__context__packages__torch": "2.14.0"},
            ("backend.packages.torch", "2.13.0", "2.14.0"),
        ),
        (
            {"backends__torch-cuda__context__packages__new": "1.0"},
            ("backend.packages.new", None, "1.0"),
        ),
        (
            {"backends__torch-cuda__context__lock": "m"},
            ("backend.lock", "l" * 16, "m"),
        ),
        (
            {"backends__torch-cuda__by_threads__1": {"OMP_NUM_THREADS": "1", "X": "y"}},
            ("backend.variables.X", None, "y"),
        ),
        (
            {"backends__torch-cuda__files": {"lib/libcublas.so": "other"}},
            ("backend.library.fingerprint", "f", "other"),
        ),
        (
            {"backends__torch-cuda__files": {"lib/libcublas.so": None}},
            ("backend.library.file", "lib/libcublas.so", None),
        ),
        (
            {"backends__torch-cuda__context__deploy": "conda"},
            ("backend.deploy", "venv", "conda"),
        ),
    ],
)
def test_each_change_is_named_alone(
    tmp_path: Path, changed: dict[str, Any], expected: tuple[str, Any, Any]
) -> None:
    one = entry(tmp_path)
    record(one)
    assert standing(one, **changed).changes == (expected,)


def test_conda_in_place_of_a_venv_is_one_change(tmp_path: Path) -> None:
    one = entry(tmp_path)
    record(one)
    changed = {
        "backends__torch-cuda__context__deploy": "conda",
        "backends__torch-cuda__context__packages": {"pytorch": "2.13.0 cpu"},
        "backends__torch-cuda__files": {"lib/libcublas.so": None},
    }
    assert [key for key, _, _ in standing(one, **changed).changes] == ["backend.deploy"]


def test_a_new_gpu_driver_leaves_the_cpu_cells_alone(tmp_path: Path) -> None:
    cells = [entry(tmp_path), entry(tmp_path, backend="torch-cpu")]
    for one in cells:
        record(one)
    found = standings(cells, {"here": answer(devices__cuda__driver="590")}, Latest())
    assert [one.stale for one in found] == [True, False]


def test_what_an_older_record_lacks_is_not_compared(tmp_path: Path) -> None:
    one = entry(tmp_path)
    record(one, backend={"packages": BACKEND["packages"]}, host={"kernel": HOST["kernel"]})
    assert standing(one).changes == ()
    changed = standing(one, host__kernel="Linux 7")
    assert [key for key, _, _ in changed.changes] == ["host.kernel"]


def test_what_is_not_known_now_is_not_compared_and_said(tmp_path: Path) -> None:
    one = entry(tmp_path)
    record(one)
    found = answer()
    backend = found["backends"]["torch-cuda"]
    backend |= {"built": False, "reason": "its environment is not built here", "files": {}}
    del backend["context"]["packages"], backend["context"]["python"]
    (one_found,) = standings([one], {"here": found}, Latest())
    assert one_found.changes == ()
    assert "torch-cuda not compared: its environment is not built" in listing([one_found], "", "")


def test_the_latest_run_counts_not_the_last_good_one(tmp_path: Path) -> None:
    one = entry(tmp_path)
    record(one, device={"driver": "570"})
    assert standing(one).stale
    record(one, status="crashed", day=2)
    found = standing(one)
    assert not found.stale and found.failed
    record(one, day=3, status="unsupported")
    assert not standing(one).failed


STRANGE = {
    "flags": ["other-machine"],
    "promise": {"broken": ["64 CPUs are promised, 2 may be used"]},
}


def test_a_run_of_another_machine_does_not_count_and_the_one_before_does(tmp_path: Path) -> None:
    one = entry(tmp_path)
    record(one, day=1, device=GPU | {"driver": "570"})
    record(one, day=2, also=STRANGE)
    found = standing(one)
    assert found.changes == (("device.driver", "570", "580.65.06"),)
    assert found.stale and not found.missing
    assert found.measured_at == "2026-11-01T12:00:06.000000Z"
    assert found.elsewhere == "64 CPUs are promised, 2 may be used"
    told = listing([found], "", "").splitlines()
    assert told[-1] == ("1 cell run later on another machine: 64 CPUs are promised, 2 may be used")


def test_a_cell_that_only_another_machine_ran_is_not_measured_on_this_one(tmp_path: Path) -> None:
    cells = [entry(tmp_path, n) for n in (1, 2, 3)]
    record(cells[0], also=STRANGE)
    record(cells[1], status="crashed", also={"flags": ["other-machine"]})
    record(cells[2])
    latest = Latest()
    request("here", cells, load_registry(ROOT), "venv", tmp_path, latest)
    found = standings(cells, {"here": answer()}, latest)
    assert [one.status for one in found] == ["missing", "missing", "ok"]
    assert [one.elsewhere for one in found] == [
        "64 CPUs are promised, 2 may be used",
        "other hardware than machine.json describes",
        None,
    ]
    assert [one.entry.cell.n for one in chosen(found, "missing", now=NOW)] == [1, 2]
    assert chosen(found, "failed", now=NOW) == []
    assert chosen(found, "stale", now=NOW) == []
    assert listing(found, "", "").splitlines()[2:] == [
        "2 cells without any run of this machine: refresh --config only=missing",
        "1 cell run only on another machine: 64 CPUs are promised, 2 may be used",
        "1 cell run only on another machine: other hardware than machine.json describes",
    ]


def test_a_damaged_last_line_is_passed_over(tmp_path: Path) -> None:
    one = entry(tmp_path)
    record(one)
    with Path(one.path).open("a", encoding="utf-8") as file:
        file.write("{half a li\n")
    assert standing(one).status == "ok"


def test_the_latest_run_of_a_long_history(tmp_path: Path) -> None:
    from gemmgrid.records.history import latest, read

    one = entry(tmp_path)
    for day in range(1, 20):
        record(one, day=day, device={"driver": "x" * 500})
    for block in (7, 100, 1000, 1 << 18):
        found = latest(Path(one.path), block)
        assert found == read(Path(one.path)).latest
    assert latest(tmp_path / "gone.jsonl") is None


def test_the_choice(tmp_path: Path) -> None:
    fresh, old, failed, missing = (entry(tmp_path, n) for n in (1, 2, 3, 4))
    record(fresh, day=29)
    record(old, day=1, device={"driver": "570"})
    record(failed, day=20, status="crashed")
    cells = [fresh, old, failed, missing]
    found = standings(cells, {"here": answer()}, Latest())

    def names(*given: Any) -> list[int]:
        return [one.entry.cell.n for one in chosen(found, *given, now=NOW)]

    assert names() == [2]
    assert names("failed") == [3]
    assert names("missing") == [4]
    assert names("stale,failed") == [2, 3]
    assert names("all") == [1, 2, 3, 4]
    assert names(None, "10d") == [2, 3]
    assert names("failed", "3w") == []
    assert names(None, "90min") == [1, 2, 3]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("stail",), "Did you mean 'stale'"),
        ((None, "30"), "as in 30d"),
        ((None, "xd"), "as in 30d"),
    ],
)
def test_wrong_choices_say_what_is_allowed(given: tuple[Any, ...], told: str) -> None:
    with pytest.raises(WrongChoiceError, match=told):
        chosen([], *given)


def test_the_list_is_grouped_by_what_changed(tmp_path: Path) -> None:
    cells = [entry(tmp_path, n) for n in range(1, 13)]
    for index, one in enumerate(cells):
        record(one, device=GPU | {"driver": "570"} if index else GPU)
    cells.append(entry(tmp_path, backend="torch-cpu"))
    record(cells[-1], host={"kernel": "Linux 6.1"})
    cells.append(entry(tmp_path, 100))
    found = standings(cells, {"here": answer()}, Latest())
    text = listing(found, "snakemake refresh", "snakemake -f {}")
    lines = text.splitlines()
    assert lines[0] == "12 of 13 cells were measured in another context than here has now"
    assert "11 cells, about 1 min to measure again, because" in lines
    assert lines[lines.index("11 cells, about 1 min to measure again, because") + 1] == (
        "  GPU driver: 570 → 580.65.06"
    )
    assert "  kernel: Linux 6.1 → Linux 6.18" in lines
    assert "    … and 3 more" in lines
    assert "measure 12 cells again (about 1 min):" in lines
    assert f"  snakemake -f {cells[1].path}" in lines
    assert "1 cell without any run: refresh --config only=missing" in lines


def test_the_question_names_what_the_runs_named(tmp_path: Path) -> None:
    registry = load_registry(ROOT)
    cells = [entry(tmp_path, n, "torch-cpu") for n in (1, 2)]
    record(cells[0])
    asked = request("here", cells, registry, "venv", tmp_path, Latest())
    backend = asked["backends"]["torch-cpu"]
    assert backend["libraries"] == ["lib/libcublas.so"]
    assert backend["packages"] == ["torch", "numpy"]
    assert backend["threads"] == [1]
    assert backend["prefix"] == str(tmp_path / ".envs/torch-cpu")
    conda = request("here", cells, registry, "conda", tmp_path, Latest(), lambda e: f"/c/{e}")
    assert conda["backends"]["torch-cpu"]["prefix"] == "/c/torch-cpu"


def test_commands_name_the_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    study = refresh.study_arguments(
        [tmp_path / "my study.yaml", Path("/elsewhere/x.yaml")],
        {"only": "stale", "older_than": "1d", "select": "n>=64 dtype=float32"},
    )
    told = refresh.command("refresh", study, "conda", False)
    assert told == (
        "snakemake --cores 1 refresh --use-conda --configfile 'my study.yaml' /elsewhere/x.yaml "
        "--config 'select=n>=64 dtype=float32'"
    )
    slurm = refresh.command("stale", [], "venv", True)
    assert slurm == "snakemake --profile profiles/slurm stale"


def test_the_command_prints_the_list(tmp_path: Path, capsys: Any) -> None:
    one = entry(tmp_path)
    record(one)
    line = {"machine": "here", "backend": one.backend, "cell": one.cell.to_json()}
    line |= {"path": one.path, "status": "planned"}
    plan, now = tmp_path / "plan.jsonl", tmp_path / "here.json"
    plan.write_text(f'{{"kind": "plan"}}\n{json.dumps(line)}\n')
    now.write_text(json.dumps(answer(devices__cuda__driver="590")))
    arguments = ["--plan", str(plan), "--again", "AGAIN", "--one-cell", "ONE {}", str(now)]
    assert stale.main(arguments) == 0
    told = capsys.readouterr().out
    assert "GPU driver: 580.65.06 → 590" in told and "AGAIN" in told and f"ONE {one.path}" in told


def test_where_nothing_is_measured_nothing_fits(tmp_path):
    found = standings([entry(tmp_path, 100)], {"here": answer()}, Latest())
    text = listing(found, "snakemake refresh", "snakemake -f {}")
    assert text.startswith("nothing can be stale: no cell of here is measured yet")
    assert "1 cell without any run" in text
