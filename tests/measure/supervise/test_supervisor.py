"""What is known beforehand: cells that do not fit are never started."""

from __future__ import annotations

import sys

import pytest

from gemmgrid.measure.host import cgroup
from gemmgrid.measure.supervise import supervisor
from gemmgrid.measure.supervise.request import Environment, Request
from gemmgrid.records.cell import Cell
from tests.measure.invocation.test_steps import SETTINGS

CARD = {"gpus": [{"name": "a card", "memory_bytes": 16 << 30, "driver": "1"}], "cpu": {}}


class Place:
    """A test double of the machine, with one GPU of 16 GiB."""

    gpu_index = 0
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
    monkeypatch.setattr(supervisor, "Whereabouts", Place)
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
