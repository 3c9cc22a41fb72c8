"""What is known beforehand: cells that do not fit are never started."""

from __future__ import annotations

import sys
import time

import pytest

from gemmgrid.measure.supervise import feasible, supervisor
from gemmgrid.measure.supervise.process import Outcome
from gemmgrid.measure.supervise.request import Environment, Request
from gemmgrid.records.cell import Cell
from gemmgrid.records.run import now
from gemmgrid.system import cgroup
from tests.measure.invocation.test_steps import SETTINGS

CARD = {"gpus": [{"name": "a card", "memory_bytes": 16 << 30, "driver": "1"}], "cpu": {}}


class Place:
    """A test double of the machine, with one GPU of 16 GiB."""

    gpu_memory_bytes: int | None = 16 << 30
    cache_bytes = None
    facts = CARD
    host = {"id": "0"}  # noqa: RUF012
    gpu = {"id": "1", "name": "a card", "driver": "1"}  # noqa: RUF012
    context = {"host": {}, "device": {}, "host_hash": "0", "device_hash": "1"}  # noqa: RUF012

    def __init__(self, *arguments: object, **more: object) -> None:
        pass


def run(name: str, device: str = "cuda", **environment: object) -> dict:
    cell = Cell.parse(name)
    spec = {"cell": cell.to_json(), "backend": "b", "adapter": "numpy", "device": device}
    spec |= {"blas": None, "options": {}, "variables": {}}
    place = Environment("e", "none", sys.executable, None, **environment)
    request = Request("here", spec, cell, SETTINGS, 1, None, {}, place)
    return supervisor.measure_cell(request, lambda: pytest.fail("a process was started"))


def test_a_cell_that_outgrows_the_card_is_infeasible(monkeypatch):
    monkeypatch.setattr(supervisor, "ThisMachine", Place)
    monkeypatch.setattr(cgroup, "available_bytes", lambda: 1 << 40)
    found = run("gemm.float32.30000x30000x30000.t1")
    assert found["status"] == "infeasible"
    assert "on the GPU, which has 17.2 GB" in found["reason"]


def test_a_cell_that_outgrows_the_memory_is_infeasible(monkeypatch):
    monkeypatch.setattr(cgroup, "available_bytes", lambda: 1 << 30)
    found = run("gemm.float64.10000x10000x10000.t1", "cpu")
    assert found["status"] == "infeasible"
    assert "1.1 GB are free" in found["reason"]


def test_a_known_problem_of_the_environment_is_its_reason():
    found = run("dot.float32.10.t1", "cpu", problem="could not be built", log_tail="the log")
    assert (found["status"], found["reason"]) == ("env-failed", "could not be built")
    assert found["failure"]["stderr_tail"] == "the log"


def test_cold_operands_outgrow_all_caches():
    cell = Cell.parse("gemm.float32.256x256x256.t1.cold")
    cache = 8 * (32 << 20) + 64 * (1 << 20)  # a server of eight dies: more than any one cache
    count = feasible.sets(cell, cache)
    assert (count - 1) * cell.operand_bytes >= 2 * cache
    assert feasible.sets(cell, None) * cell.operand_bytes > 2 * feasible.UNKNOWN_CACHE_BYTES
    assert feasible.sets(Cell.parse("gemm.float32.256x256x256.t1"), cache) == 1
    assert feasible.sets(Cell.parse("gemm.float32.20000x20000x20000.t1.cold"), cache) == 2
    assert feasible.sets(Cell.parse("dot.float32.10.t1.cold"), cache) == feasible.MOST_SETS


def test_the_memory_of_cold_operands_counts(monkeypatch):
    """256³ float32 takes 0.8 MB; the sets that outgrow the caches of a server take much more."""
    monkeypatch.setattr(
        supervisor, "ThisMachine", type("Server", (Place,), {"cache_bytes": 1 << 30})
    )
    monkeypatch.setattr(cgroup, "available_bytes", lambda: 2 << 30)
    found = run("gemm.float32.256x256x256.t1.cold", "cpu")
    assert found["status"] == "infeasible"


def test_a_process_that_died_has_the_time_of_its_start(monkeypatch):
    monkeypatch.setattr(supervisor, "ThisMachine", Place)
    monkeypatch.setattr(supervisor.process, "run", late)
    began = now()
    found = run("dot.float32.10.t1", "cpu")["invocations"][0]
    assert (found["status"], found["stage"]) == ("crashed", "warmup")
    assert began <= found["started_at"] < late.ended


def test_activation_reaches_the_process_and_is_no_part_of_the_context(monkeypatch):
    """`stale` reads the context without activating anything: the packages stand for it there."""
    seen = []

    def look(command, env, *more):
        seen.append(env)
        return late(command, env, *more)

    monkeypatch.setattr(supervisor, "ThisMachine", Place)
    monkeypatch.setattr(supervisor.process, "run", look)
    monkeypatch.setenv("MKL_INTERFACE_LAYER", "of the shell")
    monkeypatch.setenv("OPENBLAS_CORETYPE", "x")
    found = run("dot.float32.10.t1", "cpu", activation={"MKL_INTERFACE_LAYER": "LP64,GNU"})
    assert seen[0]["MKL_INTERFACE_LAYER"] == "LP64,GNU" and "OPENBLAS_CORETYPE" not in seen[0]
    assert "MKL_INTERFACE_LAYER" not in found["context"]["backend"]["variables"]
    assert "OMP_NUM_THREADS" in found["context"]["backend"]["variables"]
    assert "LP64,GNU" in str(found["environment"])


def late(command, env, folder, *more):
    (folder / "result.stage").write_text("warmup")
    time.sleep(0.01)
    late.ended = now()
    return Outcome(None, "SIGSEGV", False, False, 0.01, "", "")
