"""The measured side whole: cells with every kind of option, through the supervisor, for real."""

from __future__ import annotations

import pytest
import yaml
from jsonschema import Draft202012Validator

from gemmgrid.measure.machine.this_machine import ThisMachine
from gemmgrid.measure.supervise.request import Environment, Request
from gemmgrid.measure.supervise.supervisor import measure_cell
from gemmgrid.records.cell import Cell
from tests.measure.interpreters import ROOT, interpreter

SETTINGS = {
    "invocations": 1,
    "rounds": 1,
    "warmup_s": 0.02,
    "sample_s": 0.05,
    "min_samples": 5,
    "max_samples": 500,
    "interval": 0.01,
    "batch_s": 0.001,
    "budget_s": 30,
    "memory_fraction": 0.8,
    "evidence": False,
}


def measured(environment: str, adapter: str, name: str, **settings) -> dict:
    python = interpreter(environment)
    cell = Cell.parse(name)
    spec = {
        "cell": cell.to_json(),
        "backend": environment,
        "adapter": adapter,
        "device": "cpu",
        "blas": "openblas" if "openblas" in environment else None,
        "options": {"library": "openblas"} if adapter == "cblas" else {},
        "variables": {},
    }
    place = Environment(environment, "venv", str(python), str(python.parent.parent))
    request = Request("here", spec, cell, SETTINGS | settings, 1, None, {}, place)
    run = measure_cell(request, lambda: None)
    assert run["status"] == "ok", run["reason"]
    return run


@pytest.mark.parametrize(
    ("environment", "adapter", "name"),
    [
        ("numpy-openblas", "numpy", "gemm.float32.96x80x64.t1.nt"),
        ("numpy-openblas", "numpy", "gemm.float64.64x64x64.t1.alloc"),
        ("numpy-openblas", "numpy", "gemm.complex64.64x64x64.t1.b4"),
        ("numpy-openblas", "numpy", "gemm.float32.64x64x64.t1.unaligned"),
        ("numpy-openblas", "numpy", "gemm.float32.64x64x64.t1.zeros"),
        ("numpy-openblas", "numpy", "gemm.float32.64x64x64.t1.reuse"),
        ("numpy-openblas", "numpy", "gemv.float64.200x300.t1.colmajor.ld8"),
        ("numpy-openblas", "numpy", "dot.complex128.1000.t1"),
        ("cblas-openblas", "cblas", "gemm.float32.96x80x64.t1.tn.alpha2.beta1"),
        ("scipy-openblas", "scipy", "gemm.float64.96x80x64.t1.colmajor.alpha-1.beta0.5"),
    ],
)
def test_cells_with_options_are_measured_and_verified(environment, adapter, name):
    (one,) = measured(environment, adapter, name)["invocations"]
    assert all(one["verify"][when]["ok"] for when in ("before", "after", "fresh"))
    assert one["samples"]["elapsed_ns"]
    assert len(one["samples"]["at_ns"]) == len(one["samples"]["elapsed_ns"])
    assert one["import_s"] > 0
    assert one["first_call_s"] > 0
    assert one["call_overhead_ns"] > 0


def test_cold_operands_outgrow_the_cache_and_are_verified():
    (one,) = measured("numpy-openblas", "numpy", "gemm.float32.256x256x256.t1.cold")["invocations"]
    assert one["verify"]["after"]["ok"]
    cache, set_bytes = ThisMachine("cpu").cache_bytes, 3 * 4 * 256**2
    assert one["operands"]["sets"] * set_bytes > 2 * (cache or 0)
    assert one["operands"]["first_touch"] == "one thread"


def test_unaligned_operands_lie_where_the_cell_says():
    (one,) = measured("numpy-openblas", "numpy", "gemm.float32.64x64x64.t1.unaligned")[
        "invocations"
    ]
    assert {one["operands"][name]["alignment"] for name in "ABC"} == {16}
    (plain,) = measured("numpy-openblas", "numpy", "gemm.float32.64x64x64.t1")["invocations"]
    assert all(plain["operands"][name]["alignment"] >= 64 for name in "ABC")


@pytest.mark.parametrize(
    ("name", "memory", "pairs"),
    [("gemm.float32.64x64x64.t2", [True, False], 1), ("dot.float64.1000.t1", [True, True], 0)],
)
def test_the_cpus_are_probed_around_the_samples(name, memory, pairs):
    run = measured("numpy-openblas", "numpy", name, invocations=2)
    schema = yaml.safe_load((ROOT / "workflow/schemas/run.schema.yaml").read_text("utf-8"))
    found = [one["probe"] for one in run["invocations"]]
    for probe in found:
        validator = Draft202012Validator(schema["$defs"]["probe"] | {"$defs": schema["$defs"]})
        assert [error.message for error in validator.iter_errors(probe)] == []
        assert len(probe["before"]["trips"]) == len(probe["after"]["trips"]) == pairs
        assert len(probe["cpus"]) == 1 + pairs
    # On a busy machine more than the two are started.
    assert [probe["memory"] is not None for probe in found[:2]] == memory


def test_results_have_a_digest_and_the_first_process_a_componentwise_error():
    name = "gemm.float64.64x64x64.t{}"
    runs = [measured("numpy-openblas", "numpy", name.format(n), invocations=2) for n in (1, 2)]
    found = [one["result"] for run in runs for one in run["invocations"]]
    assert len({one["digest"] for one in found}) == 1
    assert 0 < found[0]["componentwise"] < 64
    assert (found[1]["componentwise"], found[1]["elements"]) == (None, 0)


def test_a_dtype_without_blas_is_a_slow_path():
    run = measured("numpy-openblas", "numpy", "gemm.float16.128x128x128.t1", invocations=2)
    assert "slow-path" in run["flags"]
    first, *others = run["invocations"]
    assert first["against_float32"] > 12
    assert all(one["against_float32"] is None for one in others)


def test_every_process_is_fresh_and_all_samples_are_kept():
    run = measured("numpy-openblas", "numpy", "gemm.float32.64x64x64.t1", invocations=3)
    assert [one["index"] for one in run["invocations"]] == [0, 1, 2]
    starts = [one["started_at"] for one in run["invocations"]]
    assert starts == sorted(set(starts))


def test_a_slow_call_stops_with_the_samples_it_has():
    run = measured(
        "numpy-openblas", "numpy", "gemm.float16.512x512x512.t1", invocations=2, budget_s=4
    )
    assert "budget-spent" in run["flags"]
    assert run["invocations"][0]["stop"] == "budget"
    assert run["invocations"][0]["samples"]["elapsed_ns"]


def test_a_path_slower_than_the_budget_ends_with_one_sample_and_its_flag():
    """Not even a second product fits: what would follow the sample is left out, and named."""
    run = measured("numpy-openblas", "numpy", "gemm.float16.512x512x512.t1", budget_s=0.5)
    assert {"budget-spent", "slow-path"} <= set(run["flags"])
    (one,) = run["invocations"]
    assert len(one["samples"]["elapsed_ns"]) == 1
    assert one["unknown"]["verify.fresh"] == "no time left in the budget"
    assert one["verify"]["after"]["ok"]
    spent = one["warmup"]["seconds"] + one["first_call_s"]
    assert one["samples"]["elapsed_ns"][0] / 1e9 <= one["warmup"]["seconds"] < spent


def test_rounds_are_gathered_into_one_run():
    from gemmgrid.measure.supervise.rounds import gather

    python = interpreter("numpy-openblas")
    cell = Cell.parse("gemm.float32.64x64x64.t1")
    spec = {"cell": cell.to_json(), "backend": "numpy-openblas", "adapter": "numpy"}
    spec |= {"device": "cpu", "blas": "openblas", "options": {}, "variables": {}}
    place = Environment("numpy-openblas", "venv", str(python), str(python.parent.parent))
    settings = SETTINGS | {"invocations": 5, "rounds": 3}
    parts = []
    for number in (1, 2, 3):
        request = Request("here", spec, cell, settings, 1, None, {}, place)
        parts.append(measure_cell(request, lambda: None, number))
    run = gather(parts)
    assert run["status"] == "ok", run["reason"]
    assert sorted(one["index"] for one in run["invocations"]) == [0, 1, 2, 3, 4]
    assert [one["round"] for one in run["invocations"]] == [1, 1, 2, 2, 3]
    assert not {"one-round", "few-invocations"} & set(run["flags"])
    assert run["started_at"] < run["ended_at"]
