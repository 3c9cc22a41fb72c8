"""What adapters do on a device, tried where there is none: the CPU stands in for it."""

from __future__ import annotations

import json

from tests.measure.interpreters import run

QUEUED = """
import json, sys
import numpy as np
from gemmgrid.measure import adapters
from gemmgrid.measure.invocation import operands
from gemmgrid.measure.invocation.loop import compile_loop
from gemmgrid.records.cell import Cell
adapter = adapters.load(sys.argv[1])("cpu", {})
adapter.device = sys.argv[2]
if sys.argv[1] == "mlx":
    adapter._evaluate = "async_eval"
cell = Cell("gemm", "float32", (64, 32, 48), 1)
given = operands.make(cell, 1)
call = adapter.prepare(cell, given)
loop = compile_loop(call)
loop.batch(20)
right = np.allclose(call.result(loop.names), given.A @ given.B, atol=1e-4)
print(json.dumps([call.statement, call.fence, loop.fenced, bool(right)]))
"""


def queued(environment: str, adapter: str, device: str) -> list[object]:
    return json.loads(run(environment, "-c", QUEUED, adapter, device).splitlines()[-1])


def test_jax_on_cuda_waits_for_the_last_result_of_a_batch() -> None:
    assert queued("jax-cpu", "jax", "cuda") == [
        "C = matmul(A, B)",
        "C.block_until_ready()",
        True,
        True,
    ]


def test_mlx_on_a_gpu_queues_a_batch_as_torch_does() -> None:
    assert queued("mlx-cpu", "mlx", "gpu") == [
        "C = mx.matmul(A, B); mx.async_eval(C)",
        "mx.synchronize()",
        True,
        True,
    ]


def test_an_mps_tensors_handle_is_no_address() -> None:
    """A handle's alignment says nothing about where the operand lies, so none is recorded."""
    program = """
import json
import torch
from gemmgrid.measure import adapters
from gemmgrid.measure.invocation import operands, steps
from gemmgrid.records.cell import Cell
adapter = adapters.load("torch")("cpu", {})
adapter.device = "mps"
adapter._placed = lambda cell, array: torch.from_numpy(array)
cell = Cell("gemm", "float32", (64, 32, 48), 1)
given = operands.make(cell, 1)
call = adapter.prepare(cell, given)
print(json.dumps([call.addresses, call.fence, steps._where(given, call)]))
"""
    addresses, fence, described = json.loads(run("torch-cpu", "-c", program))
    assert addresses == {}
    assert fence == "torch.mps.synchronize()"
    assert [described[name] for name in "ABC"] == [None, None, None]
    assert all("handle" in described["unknown"][name] for name in "ABC")


def test_no_uuid_of_a_card_enters_a_record() -> None:
    program = """
import json, types
from gemmgrid.measure import adapters
properties = types.SimpleNamespace(name="NVIDIA H200", major=9, minor=0, multi_processor_count=132,
                                   total_memory=150 << 30, uuid="12345678-SECRET")
adapter = adapters.load("torch")("cpu", {})
adapter.device = "cuda"
adapter._torch = types.SimpleNamespace(
    cuda=types.SimpleNamespace(
        current_device=lambda: 0, get_device_properties=lambda number: properties
    ),
    version=types.SimpleNamespace(cuda="13.0"),
)
print(json.dumps(adapter._device({})))
"""
    device = json.loads(run("torch-cpu", "-c", program))
    assert (device["name"], device["capability"]) == ("NVIDIA H200", "9.0")
    assert "SECRET" not in json.dumps(device)


def test_mlx_records_kinds_and_sizes_of_a_card_only() -> None:
    program = """
import json, types
from gemmgrid.measure import adapters
adapter = adapters.load("mlx")("cpu", {})
adapter.device = "gpu"
told = {"device_name": "Apple M4", "memory_size": 24, "uuid": "SECRET", "pci_bus_id": "SECRET"}
adapter._mx = types.SimpleNamespace(device_info=lambda: told)
print(json.dumps(adapter._device_facts()))
"""
    facts = json.loads(run("mlx-cpu", "-c", program))
    assert facts == {"device_name": "Apple M4", "memory_size": 24}
